"""What a topology must fulfil before anybody uses it: a ladder of checks, each naming the wrong field."""

from collections.abc import Iterable
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from envelope.errors import InvariantBroken, Refused
from sharding.slots import Layout, database_name
from sharding.topology.spec import SetSpec, Topology

# One SET holds at least one of at most 100 databases; a SET of more servers than this is not one slice any
# more.
MAX_SETS = 100
MAX_SERVERS_PER_SET = 64
# A ring has 512 points per unit (1 ms each): weights are small ratios, not percentages of a percentage.
MAX_WEIGHT = 100


def check_topology(topology: Topology) -> None:
    """Raise Refused `topology_invalid`, with a sentence that starts with the field, unless all is well."""
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
    # Unique over all SETs, so that a name in a log or a list of the living means one server.
    _check_unique("servers", (name for one in topology.sets for name in one.server_names))
    _check_pins(topology)


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
    # Unknown names, absolute or climbing paths, and names of folders in the zone data, in this order.
    except (KeyError, ValueError, OSError):
        raise invalid("time_zone", f"{name!r} is no known time zone") from None


def _check_set(field: str, one: SetSpec) -> None:
    if not 0 <= one.weight <= MAX_WEIGHT:
        raise invalid(f"{field}.weight", f"must be 0 to {MAX_WEIGHT}, is {one.weight}")
    if not 1 <= len(one.servers) <= MAX_SERVERS_PER_SET:
        raise invalid(f"{field}.servers", f"must be 1 to {MAX_SERVERS_PER_SET} servers")
    for number, server in enumerate(one.servers):
        _check_url(f"{field}.servers[{number}].url", server.url)
    if one.memcached is not None:
        _check_memcached(f"{field}.memcached", one.memcached)


def _check_unique(field: str, names: Iterable[str]) -> None:
    seen = set()
    for name in names:
        if not name or name != name.strip():
            raise invalid(field, f"{name!r} is no name")
        if name in seen:
            raise invalid(field, f"the name {name!r} is there twice")
        seen.add(name)


def _check_pins(topology: Topology) -> None:
    databases = {database_name(xx) for xx in range(topology.layout.databases)}
    names = {one.name for one in topology.sets}
    for database, name in topology.pins.items():
        if database not in databases:
            raise invalid(f"pins.{database}", f"there is no such database with {topology.slots} slots")
        if name not in names:
            raise invalid(f"pins.{database}", f"there is no SET {name!r}")
    holes = sorted(databases - topology.pins.keys())
    if holes and not any(one.weight for one in topology.sets):
        raise invalid("sets", f"all weights are 0 and nothing holds {holes[0]} ({len(holes)} such databases)")


def _check_url(field: str, url: str) -> None:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise invalid(field, f"{url!r} is no URL") from None
    if parts.scheme not in {"http", "https"} or not parts.hostname or port == 0 or parts.query or parts.fragment:
        raise invalid(field, f"{url!r} must be http(s)://host[:port][/path]")


def _check_memcached(field: str, address: str) -> None:
    if address.startswith("/"):
        return
    try:
        parts = urlsplit(f"//{address}")
        plain = bool(parts.hostname and parts.port) and parts.netloc == address
    except ValueError:
        plain = False
    if not plain:
        raise invalid(field, f"{address!r} must be host:port or the absolute path of a socket")
