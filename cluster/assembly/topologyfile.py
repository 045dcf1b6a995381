"""The topology of this machine: writes which SETs there are, and keeps what a move has changed since.

A restart gives servers other ports, never other names: rings and pins stay as they were.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from envelope.errors import Refused
from sharding.slots import database_name
from sharding.topology import ServerSpec, SetSpec, Topology, change, check_topology, dump

Servers = Mapping[str, Sequence[tuple[str, str]]]
"""For each SET its servers: (name, URL)."""


def write_topology(path: Path, servers: Servers, *, memcached: str, wallet_url: str, slots: int) -> None:
    """Write the file with so many slots, or put the new addresses into the one that is there; durable on return.

    A move that changes the file meanwhile waits, and is waited for: neither takes back what the other has written.
    """
    sets = tuple(
        SetSpec(name=name, servers=tuple(ServerSpec(name=one, url=url) for one, url in some), memcached=memcached)
        for name, some in servers.items()
    )
    if path.exists():
        change(path, lambda old: _readdressed(old, sets, wallet_url))
    else:
        dump(Topology(version=1, slots=slots, sets=sets, wallet_url=wallet_url), path)


def _readdressed(old: Topology, sets: Sequence[SetSpec], wallet_url: str) -> Topology:
    _check_leaving(old, [one.name for one in sets])
    before = {one.name: one for one in old.sets}
    # A SET that comes holds nothing until databases are moved to it.
    known = tuple(
        _as_before(one, before[one.name]) if one.name in before else msgspec.structs.replace(one, weight=0)
        for one in sets
    )
    new = msgspec.structs.replace(old, version=old.version + 1, sets=known, wallet_url=wallet_url)
    check_topology(new)
    return new


def _as_before(new: SetSpec, old: SetSpec) -> SetSpec:
    """Return a SET with its new addresses and what an operator has said of it. A server that is new is not drained."""
    away = {server.name for server in old.servers if server.drained}
    servers = tuple(msgspec.structs.replace(one, drained=one.name in away) for one in new.servers)
    if all(one.drained for one in servers):
        # Started with fewer servers than before: somebody has to serve.
        servers = new.servers
    return msgspec.structs.replace(new, servers=servers, weight=old.weight, paused=old.paused)


def _check_leaving(old: Topology, names: list[str]) -> None:
    """Refuse to leave out a SET that holds a database on any day."""
    for one in old.sets:
        held = old.databases_of(one.name)
        if one.name not in names and held:
            raise Refused(
                "other_sets",
                f"{one.name} holds {len(held)} databases, {database_name(held[0])} first; start with --sets "
                f"{len(old.sets)}, or move them away before (topology plan --remove {one.name})",
            )
