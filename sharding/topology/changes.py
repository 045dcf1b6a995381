"""Changes of a topology: pure functions, each returning a whole valid successor with its version and epochs.

Nothing is written here: give them to `file.change`, or `dump` what they return.
"""

from datetime import date
from typing import Any

import msgspec

from errors import Refused
from sharding.ring import Ring
from sharding.slots import database_name
from sharding.topology.check import check_topology
from sharding.topology.spec import Move, Topology, placement_key


def successor(old: Topology, **fields: Any) -> Topology:
    """Return `old` with `fields` replaced, the next version, and a higher epoch for each database whose SET changes.

    Raises Refused `topology_invalid`.
    """
    new = msgspec.structs.replace(old, version=old.version + 1, **fields)
    check_topology(new)
    risen = {
        database_name(xx): epoch + 1
        for xx, epoch in enumerate(old.epoch_of)
        if placement_key(old, xx) != placement_key(new, xx)
    }
    return msgspec.structs.replace(new, epochs={**old.epochs, **risen})


def move_from(old: Topology, database: int, to: str, valid_from: date) -> Topology:
    """Return `old` with `database` on SET `to` for envelopes of a business date and later."""
    name = database_name(database)
    move = Move(source=old.set_for_database(database).name, to=to, valid_from=valid_from)
    # The pin keeps the older days where they are, also when SETs join or leave the ring.
    pins = {**old.pins, name: old.base_of(database)}
    return successor(old, pins=pins, moves={**old.moves, name: (*old.moves.get(name, ()), move)})


def backdate_move(old: Topology, database: int, valid_from: date | None) -> Topology:
    """Return `old` with the last move of `database` valid from an earlier date; None: for all dates, it is finished."""
    name = database_name(database)
    *before, last = old.moves[name]
    others = {key: value for key, value in old.moves.items() if key != name}
    if valid_from is None:
        return successor(old, pins={**old.pins, name: last.to}, moves=others)
    return successor(old, moves={**others, name: (*before, msgspec.structs.replace(last, valid_from=valid_from))})


def take_back_move(old: Topology, database: int) -> Topology:
    """Return `old` without the last move of `database`: it stays where it was before. No row of it may have moved."""
    name = database_name(database)
    before = old.moves[name][:-1]
    others = {key: value for key, value in old.moves.items() if key != name}
    return successor(old, moves={**others, name: before} if before else others)


def hold(old: Topology, database: int) -> Topology:
    """Return `old` with `database` served by no SET, until a later change assigns or releases it."""
    name = database_name(database)
    return old if name in old.held else successor(old, held=(*old.held, name))


def assign(old: Topology, database: int, home: str, since: date | None = None) -> Topology:
    """Return `old` with `database` on SET `home`, and served there, for all dates or from `since` on."""
    name = database_name(database)
    if since is not None:
        return move_from(release(old, database), database, home, since)
    if name not in old.held and old.pins.get(name) == home:
        return old
    held = tuple(one for one in old.held if one != name)
    return successor(old, pins={**old.pins, name: home}, held=held)


def release(old: Topology, database: int) -> Topology:
    """Return `old` with `database` served again by the SET where it was."""
    name = database_name(database)
    return successor(old, held=tuple(one for one in old.held if one != name)) if name in old.held else old


def to_add(topology: Topology, name: str, weight: int = 1) -> dict[int, tuple[str, str]]:
    """Return the databases that a new SET of a weight should take over, {xx: (from, to)}: about its share."""
    weights = {one.name: one.weight for one in topology.sets if one.weight}
    ring = Ring({**weights, name: weight})
    homes = {xx: topology.set_for_database(xx).name for xx in range(topology.layout.databases)}
    return {xx: (home, name) for xx, home in homes.items() if home != name and ring.node_for(database_name(xx)) == name}


def to_remove(topology: Topology, name: str) -> dict[int, tuple[str, str]]:
    """Return where the databases of a SET should go before it leaves, {xx: (from, to)}.

    Raises Refused `unknown_set`, or `last_set` if no other SET has a weight.
    """
    if name not in {one.name for one in topology.sets}:
        raise Refused("unknown_set", f"there is no SET {name!r} in the topology")
    weights = {one.name: one.weight for one in topology.sets if one.weight and one.name != name}
    if not weights:
        raise Refused("last_set", f"no other SET than {name} takes databases; give one a weight first")
    ring = Ring(weights)
    return {
        xx: (name, ring.node_for(database_name(xx)))
        for xx in range(topology.layout.databases)
        if topology.set_for_database(xx).name == name
    }


def drained(old: Topology, server: str, *, away: bool) -> Topology:
    """Return `old` with a server off the ring (`away`) or back on it.

    Raises Refused `unknown_server`, and `topology_invalid` for the last server of a SET.
    """
    if server not in {name for one in old.sets for name in one.server_names}:
        raise Refused("unknown_server", f"there is no server {server!r} in the topology")
    sets = tuple(
        msgspec.structs.replace(
            one,
            servers=tuple(
                msgspec.structs.replace(spec, drained=away) if spec.name == server else spec for spec in one.servers
            ),
        )
        for one in old.sets
    )
    return old if sets == old.sets else successor(old, sets=sets)


def paused(old: Topology, set_name: str, *, on: bool) -> Topology:
    """Return `old` with a SET paused (`on`), or serving its users again. Raises Refused `unknown_set`."""
    if set_name not in {one.name for one in old.sets}:
        raise Refused("unknown_set", f"there is no SET {set_name!r} in the topology")
    sets = tuple(msgspec.structs.replace(one, paused=on) if one.name == set_name else one for one in old.sets)
    return old if sets == old.sets else successor(old, sets=sets)
