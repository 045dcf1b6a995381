"""What a move stands on: the topology file, the databases as their owner, the clock, and who is told how it goes."""

import contextlib
import getpass
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from envelope.errors import InvariantBroken, Refused, Unavailable
from runtime import postgres
from runtime.clock import Clock, SystemClock
from schema.names import read_database
from sharding.ids import business_date
from sharding.slots import database_name, slots_of
from sharding.topology import Topology, load

TOPOLOGY_CHANNEL = "hongbao_topology"
"""Setnodes listen here and read the file at once."""


@dataclass(frozen=True)
class Ground:
    """`owners` are the owner's DSNs by SET, `wallet` the auditor's of the wallet.

    `point` is called at each point where the tool may be killed: with "STEP?" when a step is done and the journal does
    not say so yet, with "STEP" when it does. `progress` hears what is being done, how much of it is and how much there
    is.
    """

    topology_path: Path
    owners: Mapping[str, str]
    wallet: str
    clock: Clock = field(default_factory=SystemClock)
    point: Callable[[str], None] = lambda _: None
    progress: Callable[[str, int, int], None] = lambda *_: None
    who: str = field(default_factory=getpass.getuser)

    def topology(self) -> Topology:
        """Read the topology as it is now."""
        return load(self.topology_path)

    def today(self) -> date:
        """Return the business day."""
        return business_date(self.clock.now(), self.topology().zone)

    def holds(self, set_name: str, xx: int, day: date) -> bool:
        """Say whether envelopes of this database and day are on this SET, by the topology as it is now."""
        return self.topology().set_for_database(xx, day).name == set_name

    def must_hold(self, set_name: str, xx: int, days: Iterable[date]) -> None:
        """Raise InvariantBroken `owner_keeps_rows` unless this SET has all these days: others' rows of them may go."""
        for day in days:
            if not self.holds(set_name, xx, day):
                text = f"{database_name(xx)} of {day} is not on {set_name}, and the other copy was to be dropped"
                raise InvariantBroken("owner_keeps_rows", text)

    @contextlib.asynccontextmanager
    async def connect(self, set_name: str, **settings: str) -> AsyncIterator[Any]:
        """Open a connection to a SET as its owner, and close it within bounds.

        Raises Unavailable `database_unavailable`, which names the SET, or Refused `unknown_set`.
        """
        if set_name not in self.owners:
            raise Refused("unknown_set", f"there is no SET {set_name!r}; there are {', '.join(sorted(self.owners))}")
        try:
            connection = await postgres.connect(self.owners[set_name], application_name="hongbao:move", **settings)
        except Unavailable as away:
            raise Unavailable(away.code, f"{set_name}: {away.detail}") from away
        try:
            yield connection
        finally:
            await postgres.close(connection)

    async def announce(self, *set_names: str) -> None:
        """Let the servers of these SETs read the topology file now."""
        for name in set_names:
            async with self.connect(name) as connection:
                await connection.execute("SELECT pg_notify($1, '')", TOPOLOGY_CHANNEL)


@dataclass(frozen=True)
class Route:
    """Which database goes from where to where."""

    xx: int
    source: str
    target: str

    @property
    def name(self) -> str:
        """The database as the topology writes it: "db_07"."""
        return database_name(self.xx)

    @property
    def slots(self) -> list[int]:
        """Its slots."""
        return list(slots_of(self.xx))


def known_database(text: str, topology: Topology) -> int:
    """Return the number of a database that this layout has; raises Refused `unknown_database`."""
    xx = read_database(text)
    if xx >= topology.layout.databases:
        last = database_name(topology.layout.databases - 1)
        raise Refused("unknown_database", f"there is no {database_name(xx)} here; the last is {last}")
    return xx
