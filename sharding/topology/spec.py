"""The topology: which SETs there are, what each holds, and which server of a SET serves an envelope.

Database xx belongs to the SET that a ring over the SETs gives, unless a pin names another: a database is
moved by pinning it where it is, changing the SETs, and moving it with its data later. Within a SET the
envelope's ID chooses the server by a ring over the server names, so that an envelope has one actor as long
as that server lives.
"""

from collections.abc import Collection, Mapping
from functools import cached_property
from zoneinfo import ZoneInfo

import msgspec

from envelope.errors import Unavailable
from sharding.ids import slot_of
from sharding.ring import Ring
from sharding.slots import Layout, database_name, database_of


class ServerSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One setnode server. `name` is unique in the topology; the place on the ring hangs on it alone."""

    name: str
    url: str


class SetSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One SET. `weight` is its part of the databases; 0 means that it holds only what is pinned to it."""

    name: str
    servers: tuple[ServerSpec, ...]
    memcached: str | None = None
    weight: int = 1

    @property
    def server_names(self) -> tuple[str, ...]:
        """The names of the servers in the order of the file."""
        return tuple(server.name for server in self.servers)


class Topology(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """The whole topology, as it stands in the file. Whoever builds one by hand calls `check_topology`.

    `version` grows with every change. `slots` and `time_zone` are part of every ID and never change.
    `pins` maps names of databases ("db_07") to names of SETs.
    """

    version: int
    slots: int
    sets: tuple[SetSpec, ...]
    wallet_url: str
    time_zone: str = "Asia/Shanghai"
    pins: dict[str, str] = {}

    @cached_property
    def layout(self) -> Layout:
        """How many slots an ID may name."""
        return Layout(self.slots)

    @cached_property
    def zone(self) -> ZoneInfo:
        """The time zone of the business day."""
        return ZoneInfo(self.time_zone)

    def set_for_database(self, database: int) -> SetSpec:
        """Return the SET that holds database `xx`, 0 to `layout.databases` - 1."""
        return self._set_of_database[database]

    def set_for(self, envelope_id: int) -> SetSpec:
        """Return the SET that holds the envelope. The ID was parsed with this layout."""
        return self._set_of_database[database_of(slot_of(envelope_id))]

    def server_for(self, envelope_id: int, alive: Collection[str] | None = None) -> ServerSpec:
        """Return the envelope's server: the first on its SET's ring, of those named in `alive` if given.

        Raises Unavailable `no_server` if none is alive. Choosing another server is only about speed: that two
        servers think they own an envelope is sorted out by Postgres.
        """
        home = self.set_for(envelope_id)
        ring, servers = self._servers[home.name]
        key = str(envelope_id)
        first = ring.node_for(key)
        if alive is None or first in alive:
            return servers[first]
        for name in ring.nodes_for(key):
            if name in alive:
                return servers[name]
        raise Unavailable("no_server", f"No server of SET {home.name} is alive; try again in a moment.")

    def databases_of(self, set_name: str) -> list[int]:
        """Return the databases that a SET holds, in rising order."""
        return [xx for xx, home in enumerate(self._set_of_database) if home.name == set_name]

    @cached_property
    def _set_of_database(self) -> tuple[SetSpec, ...]:
        by_name = {one.name: one for one in self.sets}
        weights = {one.name: one.weight for one in self.sets if one.weight}
        ring = Ring(weights) if weights else None
        # Without a ring everything is pinned, which `check_topology` saw to.
        return tuple(
            by_name[self.pins[name] if name in self.pins or ring is None else ring.node_for(name)]
            for name in map(database_name, range(self.layout.databases))
        )

    @cached_property
    def _servers(self) -> Mapping[str, tuple[Ring, dict[str, ServerSpec]]]:
        return {
            one.name: (
                Ring(dict.fromkeys(one.server_names, 1)),
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
