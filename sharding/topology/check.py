"""What a topology must fulfil before any process uses it: a ladder of checks, each of which names the wrong field."""

import re
from collections.abc import Iterable, Sequence
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from errors import InvariantBroken, Refused
from sharding.ids import FIRST_YEAR, LAST_YEAR
from sharding.limits import MAX_MOVES, MAX_SERVERS_PER_SET, MAX_SETS, MAX_WEIGHT, NAME, RESERVED
from sharding.slots import Layout, database_name
from sharding.topology.spec import Move, SetSpec, Topology

_is_name = re.compile(NAME, re.ASCII).fullmatch


def check_topology(topology: Topology) -> None:
    """Raise Refused `topology_invalid`, with a sentence that begins with the field, if anything is wrong."""
    if topology.version < 1:
        raise invalid("version", "must be 1 or more")
    _check_layout(topology.slots)
    _check_zone(topology.time_zone)
    _check_url("wallet_url", topology.wallet_url)
    if not 1 <= len(topology.sets) <= MAX_SETS:
        raise invalid("sets", f"must be 1 to {MAX_SETS} SETs")
    _check_unique("sets", (one.name for one in topology.sets))
    for number, one in enumerate(topology.sets):
        _check_set(f"sets[{number}]", one)
    # Unique over all SETs, so that a name in a log or in a list of connected servers means one server.
    servers = [name for one in topology.sets for name in one.server_names]
    _check_unique("servers", servers)
    for name in servers:
        if wrong := wrong_server(name):
            raise invalid("servers", wrong)
    databases = {database_name(xx): xx for xx in range(topology.layout.databases)}
    for field, named in (("pins", topology.pins), ("moves", topology.moves), ("epochs", topology.epochs)):
        _check_databases(field, named, databases, topology.slots)
    _check_databases("held", topology.held, databases, topology.slots)
    _check_pins(topology, databases)
    names = {one.name for one in topology.sets}
    for database, moves in topology.moves.items():
        _check_moves(f"moves.{database}", moves, topology.base_of(databases[database]), names)
    _check_epochs(topology)


def invalid(field: str, sentence: str) -> Refused:
    """Return the refusal of a topology whose `field` is wrong."""
    return Refused("topology_invalid", f"{field}: {sentence}.")


def _check_layout(slots: int) -> None:
    try:
        Layout(slots)
    except InvariantBroken as error:
        raise invalid("slots", error.detail) from None


def _check_zone(name: str) -> None:
    try:
        ZoneInfo(name)
    # In this order: unknown names; absolute paths and paths with ".."; names of folders in the zone data.
    except (KeyError, ValueError, OSError):
        raise invalid("time_zone", f"{name!r} is no known time zone") from None


def _check_set(field: str, one: SetSpec) -> None:
    if not 0 <= one.weight <= MAX_WEIGHT:
        raise invalid(f"{field}.weight", f"must be 0 to {MAX_WEIGHT}, is {one.weight}")
    if not 1 <= len(one.servers) <= MAX_SERVERS_PER_SET:
        raise invalid(f"{field}.servers", f"must be 1 to {MAX_SERVERS_PER_SET} servers")
    if not one.serving:
        raise invalid(f"{field}.servers", "all are drained; pause the SET instead, or let one serve")
    for number, server in enumerate(one.servers):
        _check_url(f"{field}.servers[{number}].url", server.url)
    if one.memcached is not None:
        _check_memcached(f"{field}.memcached", one.memcached)


def _check_unique(field: str, names: Iterable[str]) -> None:
    seen = set()
    for name in names:
        if not _is_name(name):
            raise invalid(field, f"{name!r} is no name: 1 to 64 letters, digits or '.', '_', '-'")
        if name in seen:
            raise invalid(field, f"the name {name!r} is there twice")
        seen.add(name)


def wrong_server(name: str) -> str:
    """Return what is wrong with the name of a setnode, as `wrong_url` does."""
    return f"{name!r} is the name of a process of its own; give the setnode another one" if name in RESERVED else ""


def _check_databases(field: str, named: Iterable[str], databases: Iterable[str], slots: int) -> None:
    for database in named:
        if database not in databases:
            raise invalid(f"{field}.{database}", f"there is no such database with {slots} slots")


def _check_pins(topology: Topology, databases: Iterable[str]) -> None:
    names = {one.name for one in topology.sets}
    for database, name in topology.pins.items():
        if name not in names:
            raise invalid(f"pins.{database}", f"there is no SET {name!r}")
    holes = sorted(set(databases) - topology.pins.keys())
    if holes and not any(one.weight for one in topology.sets):
        raise invalid("sets", f"all weights are 0 and nothing holds {holes[0]} ({len(holes)} such databases)")


def _check_moves(field: str, moves: Sequence[Move], base: str, names: Iterable[str]) -> None:
    """Check that the moves of a database are a chain: each begins on the SET where the last one ended, and later."""
    if not 1 <= len(moves) <= MAX_MOVES:
        raise invalid(field, f"must be 1 to {MAX_MOVES} moves, is {len(moves)}")
    at, since = base, None
    for number, move in enumerate(moves):
        one = f"{field}[{number}]"
        for name in (move.source, move.to):
            if name not in names:
                raise invalid(one, f"there is no SET {name!r}")
        if not FIRST_YEAR <= move.valid_from.year <= LAST_YEAR:
            raise invalid(f"{one}.valid_from", f"must be a year from {FIRST_YEAR} to {LAST_YEAR}")
        if since is not None and move.valid_from == since:
            raise invalid(f"{one}.valid_from", f"{since} belongs to two SETs, {at} and {move.to}")
        if since is not None and move.valid_from < since:
            raise invalid(f"{one}.valid_from", f"{move.valid_from} comes after {since}; moves stand in order of date")
        if move.source != at:
            until = f"before {move.valid_from}"
            raise invalid(f"{one}.from", f"leaves a hole: {until} it is on {at}, this move takes it from {move.source}")
        if move.to == at:
            raise invalid(f"{one}.to", f"it is on {at} already")
        at, since = move.to, move.valid_from


def _check_epochs(topology: Topology) -> None:
    for database, epoch in topology.epochs.items():
        if not 0 <= epoch < 1 << 31:
            raise invalid(f"epochs.{database}", f"must be 0 to 2^31 - 1, is {epoch}")


def _check_url(field: str, url: str) -> None:
    if wrong := wrong_url(url):
        raise invalid(field, wrong)


def wrong_url(url: str) -> str:
    """Return what is wrong with the address of a process, for a sentence that begins with its field; "" if nothing."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return f"{url!r} is no URL"
    if parts.scheme not in {"http", "https"} or not parts.hostname or port == 0 or parts.query or parts.fragment:
        return f"{url!r} must be http(s)://host[:port][/path]"
    return ""


def _check_memcached(field: str, address: str) -> None:
    if wrong := wrong_memcached(address):
        raise invalid(field, wrong)


def wrong_memcached(address: str) -> str:
    """Return what is wrong with the address of a memcached, as `wrong_url` does."""
    if address.startswith("/"):
        return ""
    try:
        parts = urlsplit(f"//{address}")
        plain = bool(parts.hostname and parts.port) and parts.netloc == address
    except ValueError:
        plain = False
    return "" if plain else f"{address!r} must be host:port or the absolute path of a socket"
