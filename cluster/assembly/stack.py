"""Everything on one machine as one `async with`: started in order of dependency, supervised, stopped in reverse."""

import asyncio
import contextlib
import os
from collections.abc import Coroutine, Iterable, Sequence
from types import TracebackType
from typing import Self

from archive.manifest import fingerprint
from cluster.assembly.config import StackConfig
from cluster.assembly.daytables import OCCUPIED, DayTablesAhead
from cluster.assembly.plan import WALLET, Plan, Servers, check_gateway_ports, kind_of, plan_servers
from cluster.assembly.record import PartRecord, Record
from cluster.assembly.rotating import Rotating
from cluster.assembly.topologyfile import write_topology
from cluster.machine import datafolder
from cluster.machine.account import server_account
from cluster.machine.keys import Secrets
from cluster.pg import migrations, roles
from cluster.pg.postgres import Postgres
from cluster.supervision.parts import Part
from cluster.supervision.services import Service  # noqa: TC001 - plain imports everywhere
from cluster.supervision.supervisor import Supervisor
from envelope.errors import Refused


class Stack:
    """A running system. Enter: ready when it returns, or nothing is left running and the error says why."""

    def __init__(self, config: StackConfig | None = None) -> None:
        self.config = config or StackConfig()
        self._account = server_account()
        self.folder = datafolder.choose(self.config.data, self._account)
        self._exit = contextlib.ExitStack()
        self._servers: Servers | None = None
        self._plan: Plan | None = None
        self._wallet: Service | None = None
        self._setnodes: list[Service] = []
        self._gateways: list[Service] = []
        self._supervisor: Supervisor | None = None
        self._day_tables: DayTablesAhead | None = None
        self._rotating: Rotating | None = None

    async def __aenter__(self) -> Self:
        """Start everything."""
        try:
            await self._start()
        except BaseException:
            # Also when cancelled (Ctrl-C during the start): what runs is stopped before anybody hears of it.
            await asyncio.shield(self._stop())
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop everything, in less than three seconds."""
        await asyncio.shield(self._stop())

    @property
    def gateway_url(self) -> str:
        """Where clients knock."""
        return self._gateways[0].url

    @property
    def gateway_urls(self) -> list[str]:
        """All gateways."""
        return [one.url for one in self._gateways]

    def postgres(self, name: str) -> Postgres:
        """Return the database server of a SET, or "wallet"."""
        if self._servers is None or name not in self._servers.postgres:
            raise Refused("no_such_part", f"there is no Postgres {name!r}")
        return self._servers.postgres[name]

    def kill(self, name: str, *, stay_dead: bool = False) -> None:
        """Kill a part (set-1-a, wallet, gateway-1, memcached, postgres-set-1) as a crash would."""
        self._watched.kill(name, stay_dead=stay_dead)

    async def restart(self, name: str) -> None:
        """Stop a part in good order, or take a dead one, and start it."""
        await self._watched.restart(name)

    @property
    def _watched(self) -> Supervisor:
        if self._supervisor is None:
            raise Refused("not_up", "the stack is not up")
        return self._supervisor

    async def _start(self) -> None:
        if not self.folder.path.exists():
            # A first start that cannot be leaves nothing behind. Where there is a folder its lock is asked first:
            # "already up" says more than "port taken".
            check_gateway_ports(self.config)
        self.folder.prepare(self._account)
        self._exit.enter_context(self.folder.lock())
        if self.folder.note:
            self.config.say(self.folder.note)
        secrets = Secrets.load(self.folder.secrets)
        self._servers = plan_servers(self.config, self.folder, secrets, self._account)
        self._plan = Plan(self.config, self.folder, secrets)
        await _together(self._start_memcached(), *(self._start_database(name) for name in self._servers.postgres))
        self._write_topology(self._plan, self._servers)
        owners = {name: self.postgres(name).dsn(roles.OWNER, roles.DATABASE) for name in self.config.set_names()}
        self._day_tables = DayTablesAhead(self.folder.topology, owners, self.config.say)
        occupied = await self._make_today(self._day_tables)
        await self._start_services(self._plan, self._servers)
        self._supervisor = Supervisor(self._parts(), self.config.say, self._record)
        self._supervisor.start()
        self._day_tables.start()
        self._record()
        if self.config.rotate:
            self._rotating = Rotating(self.folder.path, self.config.say)
            self._rotating.start(at_once=occupied)

    async def _make_today(self, tables: DayTablesAhead) -> bool:
        """Make today's tables; returns whether they must wait for an old day that still has their names."""
        try:
            await tables.today()
        except Refused as refusal:
            if refusal.code != OCCUPIED:
                raise
            self.config.say("everything else starts; creates of today are refused until its old day is rotated")
            return True
        return False

    async def _start_memcached(self) -> None:
        if self._servers is not None:
            await self._servers.memcached.start()

    async def _start_database(self, name: str) -> None:
        postgres = self.postgres(name)
        await postgres.start()
        await roles.ensure_roles(postgres)
        await migrations.migrate(kind_of(name), postgres.dsn(roles.OWNER, roles.DATABASE))

    def _write_topology(self, plan: Plan, servers: Servers) -> None:
        write_topology(
            self.folder.topology,
            {
                name: [(one, plan.url(one)) for one in self.config.server_names(name)]
                for name in self.config.set_names()
            },
            memcached=servers.memcached.address,
            wallet_url=plan.url(WALLET),
            slots=self.config.slots,
        )

    async def _start_services(self, plan: Plan, servers: Servers) -> None:
        """Start all at once: each one's /readyz waits for those it needs, and imports are most of a start."""
        self._wallet = plan.wallet(servers)
        self._setnodes = [one for name in self.config.set_names() for one in plan.setnodes(name, servers)]
        self._gateways = plan.gateways()
        await _together(*(one.start() for one in (self._wallet, *self._setnodes, *self._gateways)))

    async def _stop(self) -> None:
        if self._rotating is not None:
            await self._rotating.stop()
        if self._day_tables is not None:
            await self._day_tables.stop()
        if self._supervisor is not None:
            await self._supervisor.close()
        try:
            for tier in self._tiers_down():
                await asyncio.gather(*(part.stop() for part in tier))
            if self._plan is not None:
                self.folder.record.unlink(missing_ok=True)
        finally:
            self._exit.close()

    def _tiers_down(self) -> Iterable[Sequence[Part]]:
        """Callers before those they call."""
        yield self._gateways
        yield [*self._setnodes, *([self._wallet] if self._wallet else [])]
        if self._servers is not None:
            yield [self._servers.memcached, *self._servers.postgres.values()]

    def _parts(self) -> list[Part]:
        return [part for tier in self._tiers_down() for part in tier]

    def _record(self) -> None:
        servers, wallet, plan = self._servers, self._wallet, self._plan
        if servers is None or wallet is None or plan is None:
            return
        Record(
            pid=os.getpid(),
            gateway_urls=[one.url for one in self._gateways],
            wallet_url=wallet.url,
            memcached=servers.memcached.address,
            topology=str(self.folder.topology),
            parts=[PartRecord(one.name, one.pid, str(one.log.path)) for one in self._parts()],
            postgres={
                name: {role: one.dsn(role, roles.DATABASE) for role in one.spec.passwords if role != "postgres"}
                for name, one in servers.postgres.items()
            },
            archive=str(self.folder.archive),
            archive_key=fingerprint(plan.archive_key().encode()),
        ).save(self.folder.record)


async def _together(*starts: Coroutine[None, None, None]) -> None:
    """Wait for all; at the first failure cancel the others and raise that one error."""
    try:
        async with asyncio.TaskGroup() as group:
            for start in starts:
                group.create_task(start)
    except BaseExceptionGroup as errors:
        raise _first(errors) from None


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
