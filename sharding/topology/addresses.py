"""The first topology of an installation, and new addresses for the one there is: pure functions.

A restart may change a server's address, never its name: rings and pins of databases stay as they were.
"""

from collections.abc import Sequence

import msgspec

from errors import Refused
from runtime.wording import counted
from sharding.slots import database_name
from sharding.topology.balance import even_pins
from sharding.topology.check import check_topology
from sharding.topology.spec import SetSpec, Topology


def first(sets: Sequence[SetSpec], wallet_url: str, slots: int) -> Topology:
    """Return a first topology in which each SET has its share; raises Refused `topology_invalid`."""
    new = Topology(version=1, slots=slots, sets=tuple(sets), wallet_url=wallet_url)
    check_topology(new)
    return msgspec.structs.replace(new, pins=even_pins(new))


def readdressed(old: Topology, sets: Sequence[SetSpec], wallet_url: str) -> Topology:
    """Return `old` with these SETs, servers and addresses, `old` itself if it has them.

    What moves and operators have changed is kept: placements, weights, pauses, drains. A new SET has weight 0: it holds
    nothing until databases are moved to it. Raises Refused `other_sets` if a SET that holds databases would be left
    out, `topology_invalid`.
    """
    _check_removed(old, [one.name for one in sets])
    before = {one.name: one for one in old.sets}
    known = tuple(
        _as_before(one, before[one.name]) if one.name in before else msgspec.structs.replace(one, weight=0)
        for one in sets
    )
    if (known, wallet_url) == (old.sets, old.wallet_url):
        return old
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


def _check_removed(old: Topology, names: Sequence[str]) -> None:
    """Raise Refused `other_sets` if a SET that holds a database on any day is not in `names`."""
    for one in old.sets:
        held = old.databases_of(one.name)
        if one.name not in names and held:
            raise Refused(
                "other_sets",
                f"{one.name} holds {counted(len(held), 'database')}, {database_name(held[0])} first; start with --sets "
                f"{len(old.sets)}, or move them away before (topology plan --remove {one.name})",
            )
