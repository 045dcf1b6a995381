"""The topology: which SETs there are, what each holds, and which server of a SET serves an envelope.

Database xx belongs to the SET that a ring over the SETs gives, unless a pin names another. A move names another SET
from a business date on; an envelope's date is read from its ID. So a database has a history of placements: one SET for
all dates, or one until a date and another from it. Within a SET a ring over the server names gives the envelope's
server, so that an envelope has one actor as long as that server is up.

`version` numbers the files. A database's epoch rises whenever its history changes, and only then: two processes that
read different files compare epochs to know which databases they may place differently.

Processes of neighbouring releases read one file. Fields that a release does not know it ignores, with a word in its
log, and it changes no file that has some (`sharding.topology.file`). So a release that adds a field which says where an
envelope is must follow one that reads it. Version 2 of the link and before refuse a file with unknown fields.
"""

from collections.abc import Collection, Mapping
from datetime import date
from functools import cached_property
from typing import NamedTuple
from zoneinfo import ZoneInfo

import msgspec

from errors import Unavailable
from sharding.ids import LAST_YEAR, database_for, end_id, first_id
from sharding.ring import Ring
from sharding.slots import Layout, database_name, slots_of


class ServerSpec(msgspec.Struct, frozen=True):
    """One setnode server. `name` is unique in the topology; its place on the ring depends on the name alone.

    A `drained` server has no place on the ring, so that gateways send it no calls.
    """

    name: str
    url: str
    drained: bool = False


class SetSpec(msgspec.Struct, frozen=True):
    """One SET. Its share of the databases is as its `weight`; with weight 0 it holds only what is pinned to it.

    While a SET is `paused`, gateways and its own servers refuse the requests of users; it still closes envelopes that
    are due and pays claims.
    """

    name: str
    servers: tuple[ServerSpec, ...]
    memcached: str | None = None
    weight: int = 1
    paused: bool = False

    @property
    def server_names(self) -> tuple[str, ...]:
        """The names of the servers in the order of the file."""
        return tuple(server.name for server in self.servers)

    @property
    def serving(self) -> tuple[str, ...]:
        """The names of those that are not drained."""
        return tuple(server.name for server in self.servers if not server.drained)

    @property
    def drained(self) -> tuple[str, ...]:
        """The names of those that are."""
        return tuple(server.name for server in self.servers if server.drained)


class Move(msgspec.Struct, frozen=True):
    """A move by time: envelopes of business date `valid_from` and later are on SET `to`, those before it on `from`."""

    source: str = msgspec.field(name="from")
    to: str
    valid_from: date


class Placement(NamedTuple):
    """A database on one SET: from business date `since` (None: the beginning) to the next placement's `since`."""

    since: date | None
    home: SetSpec


class Topology(msgspec.Struct, frozen=True, dict=True):
    """The whole topology, as the file holds it. Call `check_topology` on one that was not read from a file.

    `version` grows with every change. `slots` and `time_zone` are part of every ID and never change. `pins` maps names
    of databases ("db_07") to names of SETs, `moves` to the moves after that, oldest first. A database that `epochs`
    does not name has epoch 0. `held` are databases between two SETs: no server may serve them until a later file.
    """

    version: int
    slots: int
    sets: tuple[SetSpec, ...]
    wallet_url: str
    time_zone: str = "Asia/Shanghai"
    pins: dict[str, str] = {}
    moves: dict[str, tuple[Move, ...]] = {}
    epochs: dict[str, int] = {}
    held: tuple[str, ...] = ()

    @cached_property
    def layout(self) -> Layout:
        """How many slots an ID may name."""
        return Layout(self.slots)

    @cached_property
    def zone(self) -> ZoneInfo:
        """The time zone of the business day."""
        return ZoneInfo(self.time_zone)

    def set_for_database(self, database: int, day: date | None = None) -> SetSpec:
        """Return the SET of database `xx` (0 to `layout.databases` - 1) on a day; None: after all moves."""
        placements = self._placements[database]
        if day is None:
            return placements[-1].home
        return next(
            placement.home for placement in reversed(placements) if placement.since is None or placement.since <= day
        )

    def set_for(self, envelope_id: int) -> SetSpec:
        """Return the SET that holds the envelope. The ID must have been parsed with this layout."""
        placements = self._bounds[database_for(envelope_id)]
        if len(placements) == 1:
            return placements[0][1]
        return next(home for first, home in reversed(placements) if envelope_id >= first)

    def history(self, database: int) -> tuple[Placement, ...]:
        """Return the placements of a database, oldest first; the first has no beginning."""
        return self._placements[database]

    def is_held(self, envelope_id: int) -> bool:
        """Say whether the envelope's database is between two SETs now."""
        return bool(self.held) and database_name(database_for(envelope_id)) in self.held

    @cached_property
    def epoch_of(self) -> tuple[int, ...]:
        """The epoch of every database, in order."""
        return tuple(self.epochs.get(database_name(xx), 0) for xx in range(self.layout.databases))

    def server_for(self, envelope_id: int, alive: Collection[str] | None = None) -> ServerSpec:
        """Return the envelope's server: the first on its SET's ring, of those named in `alive` if given.

        Raises Unavailable `no_server` if none is alive. The choice matters for speed only: if two servers act for one
        envelope, Postgres refuses the second writer.
        """
        return self.server_in(self.set_for(envelope_id), envelope_id, alive)

    def server_in(self, home: SetSpec, envelope_id: int, alive: Collection[str] | None = None) -> ServerSpec:
        """Do what `server_for` does, where the envelope's SET is known already."""
        ring, servers = self._servers[home.name]
        key = str(envelope_id)
        first = ring.node_for(key)
        if alive is None or first in alive:
            return servers[first]
        for name in ring.nodes_for(key):
            if name in alive:
                return servers[name]
        raise Unavailable("no_server", f"No server of SET {home.name} is alive; try again in a moment.")

    def databases_of(self, set_name: str, day: date | None = None) -> list[int]:
        """Return the databases that a SET holds on a day, or (None) on any day, in rising order."""
        if day is not None:
            return [xx for xx in range(self.layout.databases) if self.set_for_database(xx, day).name == set_name]
        return [
            xx
            for xx, placements in enumerate(self._placements)
            if any(placement.home.name == set_name for placement in placements)
        ]

    def ids_of(self, set_name: str) -> dict[int, tuple[range, ...]]:
        """Return slot -> the ranges of envelope IDs that a SET holds: one range of all IDs if nothing moved."""
        held: dict[int, tuple[range, ...]] = {}
        for xx, placements in enumerate(self._bounds):
            ends = [*(first for first, _ in placements[1:]), end_id(date(LAST_YEAR, 12, 31))]
            spans = tuple(
                range(first, end) for (first, home), end in zip(placements, ends, strict=True) if home.name == set_name
            )
            if spans:
                held.update((slot, spans) for slot in slots_of(xx))
        return held

    def base_of(self, database: int) -> str:
        """Return the name of a database's SET before all moves: its pin, else the ring's."""
        name = database_name(database)
        return self.pins[name] if name in self.pins or self._ring is None else self._ring.node_for(name)

    @cached_property
    def _ring(self) -> Ring | None:
        weights = {one.name: one.weight for one in self.sets if one.weight}
        return Ring(weights) if weights else None

    @cached_property
    def _placements(self) -> tuple[tuple[Placement, ...], ...]:
        # Without a ring every database is pinned (`check_topology`).
        by_name = {one.name: one for one in self.sets}
        return tuple(
            (
                Placement(None, by_name[self.base_of(xx)]),
                *(Placement(move.valid_from, by_name[move.to]) for move in self.moves.get(database_name(xx), ())),
            )
            for xx in range(self.layout.databases)
        )

    @cached_property
    def _bounds(self) -> tuple[tuple[tuple[int, SetSpec], ...], ...]:
        """The placements of each database by their first envelope ID, which a look-up compares."""
        return tuple(
            tuple(
                (0 if placement.since is None else first_id(placement.since), placement.home)
                for placement in placements
            )
            for placements in self._placements
        )

    @cached_property
    def _servers(self) -> Mapping[str, tuple[Ring, dict[str, ServerSpec]]]:
        return {
            one.name: (
                Ring(dict.fromkeys(one.serving, 1)),
                {server.name: server for server in one.servers},
            )
            for one in self.sets
        }


def moves(old: Topology, new: Topology) -> dict[int, tuple[str, str]]:
    """Return the databases that have another SET in `new`: {xx: (name of the old, name of the new)}."""
    return {
        xx: (old.set_for_database(xx).name, new.set_for_database(xx).name)
        for xx in range(old.layout.databases)
        if old.set_for_database(xx).name != new.set_for_database(xx).name
    }


def placement_key(topology: Topology, database: int) -> tuple[object, ...]:
    """Return what a database's epoch stands for: the names of its SETs with their dates, and whether it is held."""
    placements = tuple((placement.since, placement.home.name) for placement in topology.history(database))
    return (*placements, database_name(database) in topology.held)


def set_paused() -> Unavailable:
    """Return the refusal of a user's request to a paused SET."""
    return Unavailable("set_paused", "this part of the system is paused for maintenance; try again", retry_after_s=5.0)
