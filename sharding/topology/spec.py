"""The topology: which SETs there are, what each holds, and which server of a SET serves an envelope.

Database xx belongs to the SET that a ring over the SETs gives, unless a pin names another. A move says that from a
business date on another SET holds it; the date is read off the envelope's ID. So a database has a history: one SET
for ever, or one until a date and another from it. Within a SET the envelope's ID chooses the server by a ring over
the server names, so that an envelope has one actor as long as that server lives.

`version` numbers the files. A database's epoch numbers its owners: it rises whenever its history changes and with
nothing else, so that two processes that read different files know of which databases they may think differently.
"""

from collections.abc import Collection, Mapping
from datetime import date
from functools import cached_property
from typing import NamedTuple
from zoneinfo import ZoneInfo

import msgspec

from envelope.errors import Unavailable
from sharding.ids import LAST_YEAR, end_id, first_id, slot_of
from sharding.ring import Ring
from sharding.slots import Layout, database_name, database_of, slots_of


class ServerSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One setnode server. `name` is unique in the topology; the place on the ring hangs on it alone.

    One that is `drained` has no place: no envelope is its own, and gateways send it nothing.
    """

    name: str
    url: str
    drained: bool = False


class SetSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One SET. `weight` is its part of the databases; 0 means that it holds only what is pinned to it.

    Of one that is `paused` every request of a user is refused, at the gateway and at its servers; it goes on to close
    what is due and to pay what is claimed.
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


class Move(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """From business date `valid_from` on envelopes are on SET `to`; those of earlier dates stay on `from`."""

    source: str = msgspec.field(name="from")
    to: str
    valid_from: date


class Stay(NamedTuple):
    """One SET's time with a database: from business date `since` (None: from the beginning) until the next stay's."""

    since: date | None
    home: SetSpec


class Topology(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """The whole topology, as it stands in the file. Whoever builds one by hand calls `check_topology`.

    `version` grows with every change. `slots` and `time_zone` are part of every ID and never change.
    `pins` maps names of databases ("db_07") to names of SETs, `moves` to what came after that, oldest first.
    `epochs` are 0 where not named. `held` are databases between two SETs: nobody may serve them until the next file.
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
        """Return the SET that holds database `xx`, 0 to `layout.databases` - 1, on a day; None: after all moves."""
        stays = self._stays[database]
        if day is None:
            return stays[-1].home
        return next(stay.home for stay in reversed(stays) if stay.since is None or stay.since <= day)

    def set_for(self, envelope_id: int) -> SetSpec:
        """Return the SET that holds the envelope. The ID was parsed with this layout."""
        stays = self._bounds[database_of(slot_of(envelope_id))]
        if len(stays) == 1:
            return stays[0][1]
        return next(home for first, home in reversed(stays) if envelope_id >= first)

    def is_settled(self, envelope_id: int) -> bool:
        """Say whether one SET has the envelope's database for all days."""
        return len(self._bounds[database_of(slot_of(envelope_id))]) == 1

    def history(self, database: int) -> tuple[Stay, ...]:
        """Return who holds a database, oldest first; the first stay has no beginning."""
        return self._stays[database]

    def is_held(self, envelope_id: int) -> bool:
        """Say whether the envelope's database is between two SETs just now."""
        return bool(self.held) and database_name(database_of(slot_of(envelope_id))) in self.held

    @cached_property
    def epoch_of(self) -> tuple[int, ...]:
        """The epoch of every database, in order."""
        return tuple(self.epochs.get(database_name(xx), 0) for xx in range(self.layout.databases))

    def server_for(self, envelope_id: int, alive: Collection[str] | None = None) -> ServerSpec:
        """Return the envelope's server: the first on its SET's ring, of those named in `alive` if given.

        Raises Unavailable `no_server` if none is alive. Choosing another server is only about speed: that two
        servers think they own an envelope is sorted out by Postgres.
        """
        return self.server_in(self.set_for(envelope_id), envelope_id, alive)

    def server_in(self, home: SetSpec, envelope_id: int, alive: Collection[str] | None = None) -> ServerSpec:
        """Return the envelope's server as `server_for` does, for who knows its SET already."""
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
        """Return the databases that a SET holds on a day, or (None) on any day at all, in rising order."""
        if day is not None:
            return [xx for xx in range(self.layout.databases) if self.set_for_database(xx, day).name == set_name]
        return [xx for xx, stays in enumerate(self._stays) if any(stay.home.name == set_name for stay in stays)]

    def ids_of(self, set_name: str) -> dict[int, tuple[range, ...]]:
        """Return slot → the ranges of envelope IDs that a SET holds; one range of all IDs where nothing moves."""
        held: dict[int, tuple[range, ...]] = {}
        for xx, stays in enumerate(self._bounds):
            ends = [*(first for first, _ in stays[1:]), end_id(date(LAST_YEAR, 12, 31))]
            spans = tuple(
                range(first, end) for (first, home), end in zip(stays, ends, strict=True) if home.name == set_name
            )
            if spans:
                held.update((slot, spans) for slot in slots_of(xx))
        return held

    def base_of(self, database: int) -> str:
        """Return the name of the SET where a database was before all moves: its pin, else what the ring gives."""
        name = database_name(database)
        return self.pins[name] if name in self.pins or self._ring is None else self._ring.node_for(name)

    @cached_property
    def _ring(self) -> Ring | None:
        weights = {one.name: one.weight for one in self.sets if one.weight}
        return Ring(weights) if weights else None

    @cached_property
    def _stays(self) -> tuple[tuple[Stay, ...], ...]:
        # Without a ring everything is pinned, which `check_topology` saw to.
        by_name = {one.name: one for one in self.sets}
        return tuple(
            (
                Stay(None, by_name[self.base_of(xx)]),
                *(Stay(move.valid_from, by_name[move.to]) for move in self.moves.get(database_name(xx), ())),
            )
            for xx in range(self.layout.databases)
        )

    @cached_property
    def _bounds(self) -> tuple[tuple[tuple[int, SetSpec], ...], ...]:
        """The stays by the first envelope ID of each: what a look-up compares with."""
        return tuple(
            tuple((0 if stay.since is None else first_id(stay.since), stay.home) for stay in stays)
            for stays in self._stays
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


def placed(topology: Topology, database: int) -> tuple[object, ...]:
    """Return what a database's epoch stands for: who holds it when, by name, and whether it is held."""
    stays = tuple((stay.since, stay.home.name) for stay in topology.history(database))
    return (*stays, database_name(database) in topology.held)


def set_paused() -> Unavailable:
    """Return what users of a paused SET hear."""
    return Unavailable("set_paused", "this part of the system is paused for maintenance; try again", retry_after_s=5.0)
