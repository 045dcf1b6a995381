"""Writes the topology file of this machine: SETs, servers and addresses; keeps what moves and operators have changed.

A restart may change a server's port, never its name: rings and pins of databases stay as they were.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from errors import Refused
from runtime.wording import counted
from sharding.slots import database_name
from sharding.topology import ServerSpec, SetSpec, Topology, change, check_topology, dump
from sharding.topology.balance import even_pins

ServerUrls = Mapping[str, Sequence[tuple[str, str]]]
"""For each SET its servers: (name, URL)."""


def write_topology(path: Path, servers: ServerUrls, *, memcached: str, wallet_url: str, slots: int) -> None:
    """Write a first file with `slots` slots and even shares, or put new addresses into the existing one.

    Durable when this returns. A start and a move may change the file at the same time: a lock orders them, and neither
    undoes the other's change.
    Raises Refused `other_sets` if a SET that holds databases would be left out.
    """
    sets = tuple(
        SetSpec(name=name, servers=tuple(ServerSpec(name=one, url=url) for one, url in some), memcached=memcached)
        for name, some in servers.items()
    )
    if path.exists():
        change(path, lambda old: _readdressed(old, sets, wallet_url))
    else:
        first = Topology(version=1, slots=slots, sets=sets, wallet_url=wallet_url)
        dump(msgspec.structs.replace(first, pins=even_pins(first)), path)


def _readdressed(old: Topology, sets: Sequence[SetSpec], wallet_url: str) -> Topology:
    _check_removed(old, [one.name for one in sets])
    before = {one.name: one for one in old.sets}
    # A new SET has weight 0: it holds nothing until databases are moved to it.
    known = tuple(
        _as_before(one, before[one.name]) if one.name in before else msgspec.structs.replace(one, weight=0)
        for one in sets
    )
    new = msgspec.structs.replace(old, version=old.version + 1, sets=known, wallet_url=wallet_url)
    check_topology(new)
    return new


def _as_before(new: SetSpec, old: SetSpec) -> SetSpec:
    """Return a SET with its new addresses, and the weight, pause and drains of before. A new server is not drained."""
    drained = {server.name for server in old.servers if server.drained}
    servers = tuple(msgspec.structs.replace(one, drained=one.name in drained) for one in new.servers)
    if all(one.drained for one in servers):
        # Started with fewer servers than before, all of them drained: a SET needs at least one that serves.
        servers = new.servers
    return msgspec.structs.replace(new, servers=servers, weight=old.weight, paused=old.paused)


def _check_removed(old: Topology, names: list[str]) -> None:
    """Raise Refused `other_sets` if a SET that holds a database on any day is not in `names`."""
    for one in old.sets:
        held = old.databases_of(one.name)
        if one.name not in names and held:
            raise Refused(
                "other_sets",
                f"{one.name} holds {counted(len(held), 'database')}, {database_name(held[0])} first; start with --sets "
                f"{len(old.sets)}, or move them away before (topology plan --remove {one.name})",
            )
