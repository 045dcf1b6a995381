"""What every step of a move needs: the topology file, the SETs as their owner, the clock, a progress report."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from errors import InvariantBroken, Refused, Unavailable
from installation.access import Access
from moving.limits import GRACE_S
from published.publisher import Publisher, next_version
from runtime import postgres
from runtime.clock import Clock, SystemClock
from runtime.login import login
from runtime.postgres import Connection
from runtime.tls import Tls
from schema import roles
from sharding.ids import business_date
from sharding.slots import database_name
from sharding.topology import Topology, change, load

_TOPOLOGY_CHANNEL = "hongbao_topology"
"""On a notification here the setnodes of a SET read the topology file at once."""


class _ChangedMeanwhileError(Exception):
    pass


@dataclass(frozen=True)
class MoveContext:
    """`owners` are the owner's DSNs by SET, `wallet` the auditor's DSN of the wallet.

    `progress` receives what is being done, how much of it so far, and of how much; `who` stands in the operation log.
    """

    topology_path: Path
    owners: Mapping[str, str]
    wallet: str
    clock: Clock = field(default_factory=SystemClock)
    progress: Callable[[str, int, int], None] = lambda *_: None
    who: str = field(default_factory=login)
    publisher: Publisher | None = None
    grace_s: float = GRACE_S
    """How long after the switch a request that a server accepted before it may still read the old copies."""
    tls: Tls | None = None
    """What servers at https:// are shown when they are asked which topology they go by."""

    def topology(self) -> Topology:
        """Read the topology as it is now."""
        return load(self.topology_path)

    async def change(
        self, how: Callable[[Topology], Topology], proof: Callable[[], Awaitable[None]] | None = None
    ) -> Topology:
        """Change the topology for all processes; raises as `Publisher.change_topology`, and what `proof` raises.

        Without a publisher, in this host's file alone: for tests of one host.
        """
        if self.publisher is None:
            return await self._change_file(how, proof)
        return await self.publisher.change_topology(how, proof)

    async def _change_file(
        self, how: Callable[[Topology], Topology], proof: Callable[[], Awaitable[None]] | None
    ) -> Topology:
        """Change the file as the publisher changes its table: only if it has not changed since before the proof."""
        while True:
            read = self.topology()
            if proof is not None:
                await proof()

            def unless_changed(old: Topology, read: Topology = read) -> Topology:
                if old.version != read.version:
                    raise _ChangedMeanwhileError
                return how(old)

            with contextlib.suppress(_ChangedMeanwhileError):
                return change(self.topology_path, unless_changed)

    @contextlib.asynccontextmanager
    async def publishing(self) -> AsyncIterator[None]:
        """Hold ready what changes of the topology need, for the block."""
        if self.publisher is None:
            yield
        else:
            async with self.publisher.keeping():
                yield

    async def settled(self) -> Topology:
        """Return the topology after whatever was begun: a change whose outcome is unknown is there, or never will be.

        Raises as `Publisher.settle`: nothing is known then.
        """
        if self.publisher is None:
            return change(self.topology_path, next_version)
        return await self.publisher.settle()

    def today(self) -> date:
        """Return the business date."""
        return business_date(self.clock.now(), self.topology().zone)

    def holds(self, set_name: str, xx: int, day: date) -> bool:
        """Say whether envelopes of this database and day are on this SET, by the topology as it is now."""
        return self.topology().set_for_database(xx, day).name == set_name

    def must_hold(self, set_name: str, xx: int, days: Iterable[date]) -> None:
        """Call it before a drop elsewhere: raises InvariantBroken `owner_keeps_rows` unless this SET has all days."""
        for day in days:
            if not self.holds(set_name, xx, day):
                text = f"{database_name(xx)} of {day} is not on {set_name}, and the other copy was to be dropped"
                raise InvariantBroken("owner_keeps_rows", text)

    @contextlib.asynccontextmanager
    async def connect(self, set_name: str, **settings: str) -> AsyncIterator[Connection]:
        """Open a connection to a SET as its owner for the block.

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
        """Tell the servers of these SETs to read the topology file now, not at their next look."""
        for name in set_names:
            async with self.connect(name) as connection:
                await notify_servers(connection)


async def notify_servers(connection: Connection) -> None:
    """Tell the servers of this connection's SET to read the topology file now."""
    await connection.execute("SELECT pg_notify($1, '')", _TOPOLOGY_CHANNEL)


def context_of(access: Access, progress: Callable[[str, int, int], None] = lambda *_: None) -> MoveContext:
    """Return the context for moves between the SETs of an installation."""
    owners = {one.name: access.set_dsn(one.name, roles.OWNER) for one in access.topology().sets}
    return MoveContext(
        access.topology_path, owners, access.wallet_dsn(roles.AUDIT), access.clock, progress=progress,
        publisher=access.publisher(), tls=access.tls,
    )  # fmt: skip
