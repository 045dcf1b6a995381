"""Everything on one machine as one `async with`: started in order of dependency, supervised, stopped in reverse."""

import asyncio
import contextlib
import os
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import partial
from types import TracebackType
from typing import Self

from errors import HongbaoError, Refused
from installation import data_folder, sandbox
from installation.certificates import Certificates, Wanted
from installation.finding import secrets_of
from installation.keys import Secrets
from local.backing_services import BackingServices, backing_services
from local.config import StackConfig
from local.day_table_service import OCCUPIED, DayTableService
from local.gateway_ports import check_gateway_ports
from local.inventory_writer import write_inventory
from local.part import Part
from local.process_factory import ProcessFactory
from local.rolling_restart import RollingRestart
from local.running import Progress, Running, RunningPart
from local.service import Service
from local.supervisor import Supervisor
from local.supervisor_log import SupervisorLog
from machine import ports
from machine.account import server_account
from machine.logfile import LogFile
from machine.postgres.server import Postgres
from published.addresses import publish_addresses
from published.publisher import Publisher
from runtime.clock import Clock, SystemClock
from runtime.login import login
from runtime.sandbox_clock import ahead_ms
from runtime.together import all_or_first_error
from schema import identity, roles
from schema.cluster_setup import set_up_cluster
from schema.migrate import migrate_set, migrate_wallet
from schema.sandbox import put_ahead, refuse_sandbox
from setnode.services.fund_cursors import set_back
from sharding.topology import ServerSpec, SetSpec
from sharding.topology.changes import paused
from wire.keys import GATEWAY, OPERATOR, SETNODE, WALLET

ASIDE_S = 10.0
"""For a process that money does not need to be ready; after that the start goes on without it."""


class Stack:
    """A running system. On entry all parts are ready, or none is left running and the error says why."""

    def __init__(self, config: StackConfig | None = None) -> None:
        self.config = config or StackConfig()
        self._account = server_account()
        self.folder = data_folder.locate(self.config.data, self._account)
        self.notify = SupervisorLog(self.config.notify, LogFile(self.folder.log("supervisor")))
        self.clock: Clock = SystemClock()
        """The machine's, or from the start on the sandbox's."""
        self.today_occupied = False
        """Today's tables cannot be made while an old day has their names; rotation makes room for them."""
        self._exit = contextlib.ExitStack()
        self._backing: BackingServices | None = None
        self._factory: ProcessFactory | None = None
        self._wallet: Service | None = None
        self._setnodes: list[Service] = []
        self._gateways: list[Service] = []
        self._aside: list[Service] = []
        """What money does not need: the operator's view, and the delivery of events."""
        self._supervisor: Supervisor | None = None
        self._day_tables: DayTableService | None = None
        self._began = datetime.now(UTC)
        self._restarts: RollingRestart | None = None

    async def __aenter__(self) -> Self:
        """Start everything."""
        try:
            await self._start()
        except BaseException:
            # Also if cancelled (Ctrl-C during the start): the caller continues once all parts have stopped.
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
        """Where clients find the gateways."""
        if self._factory is None:
            raise Refused("not_up", "the stack is not up")
        return self._factory.gateway_url

    @property
    def ops_url(self) -> str:
        """The address of the operator's page; "" if there is none."""
        return f"{self._factory.ops_url}/ops/" if self._factory is not None and self.config.ops else ""

    def postgres(self, name: str) -> Postgres:
        """Return the database server of a SET, or "wallet"; raises Refused `no_such_part`."""
        if self._backing is None or name not in self._backing.postgres:
            raise Refused("no_such_part", f"there is no Postgres {name!r}")
        return self._backing.postgres[name]

    def kill(self, name: str, *, stay_dead: bool = False) -> None:
        """Kill a part (set-1-a, wallet, gateway-1, memcached, postgres-set-1) as a crash would."""
        self._started_supervisor().kill(name, stay_dead=stay_dead)

    async def restart(self, name: str) -> None:
        """Stop a part in good order, or take a dead one, and start it."""
        await self._started_supervisor().restart(name)

    async def restart_in_turn(self) -> str:
        """Restart all of our own processes, one after the other; return why it ended early, "" if it did not."""
        if self._restarts is None:
            raise Refused("not_up", "the stack is not up")
        await self._restarts.restart()
        return self._restarts.progress.error

    def restart_as_asked(self) -> None:
        """Begin the restart that an operator has asked for (`local.rolling_restart`)."""
        if self._restarts is not None:
            self._restarts.begin()

    def _started_supervisor(self) -> Supervisor:
        if self._supervisor is None:
            raise Refused("not_up", "the stack is not up")
        return self._supervisor

    async def _start(self) -> None:
        secrets = self._take_folder()
        self._backing = backing = backing_services(self.config, self.folder, secrets, self._account, self.notify)
        self._factory = factory = ProcessFactory(self.config, self.folder, secrets)
        if self.config.tls:
            self._make_certificates(factory)
        await all_or_first_error(backing.memcached.start(), *(self._start_database(name) for name in backing.postgres))
        await self._publish_topology(factory, backing)
        owners = {name: self.postgres(name).dsn(roles.OWNER, roles.DATABASE) for name in self.config.set_names()}
        await self._set_sweepers_back(owners)
        self._day_tables = DayTableService(
            self.folder.topology, owners, self.notify, self.config.ahead_days, self.clock
        )
        self.today_occupied = not await self._make_today(self._day_tables)
        self._make_processes(factory, backing)
        # Before any process serves: from now on a cluster that is missing is not made anew.
        write_inventory(
            self.folder,
            backing,
            factory,
            gateway_urls=[self.gateway_url],
            setnodes={name: self.config.server_names(name) for name in self.config.set_names()},
            sandbox=self.config.sandbox,
        )
        await self._start_processes()
        self._supervisor = Supervisor(self._parts(), self.notify, self._write_running)
        self._supervisor.start()
        self._day_tables.start()
        own = [one.name for one in self._services()]
        self._restarts = RollingRestart(self.folder, own, self._supervisor.restart, self._write_running, self.notify)
        self._write_running()

    def _take_folder(self) -> Secrets:
        """Make the data folder if need be and lock it until the stack has stopped.

        Raises Refused `is_sandbox` or `is_real` if it is another kind of installation's.
        """
        if not self.folder.path.exists():
            # A first start that cannot listen leaves nothing behind. An existing folder is locked before the ports are
            # checked: "already up" explains more than "port taken".
            check_gateway_ports(self.config)
        self.folder.prepare(self._account)
        self._exit.enter_context(self.folder.lock())
        self.clock = sandbox.take(self.folder, sandbox=self.config.sandbox)
        if self.folder.note:
            self.config.notify(self.folder.note)
        return secrets_of(self.folder.path)

    async def _start_database(self, name: str) -> None:
        server = self.postgres(name)
        await server.start()
        await set_up_cluster(server.dsn(), server.spec.passwords)
        owner = server.dsn(roles.OWNER, roles.DATABASE)
        await (migrate_wallet(owner) if name == WALLET else migrate_set(owner))
        await identity.claim(owner, name)
        if self.config.sandbox:
            await put_ahead(owner, ahead_ms(self.clock), wallet=name == WALLET)
        else:
            await refuse_sandbox(owner, name)

    async def _set_sweepers_back(self, owners: dict[str, str]) -> None:
        moved = await set_back(self.postgres(WALLET).dsn(roles.OWNER, roles.DATABASE), owners)
        for name, (old, new) in moved.items():
            self.notify(
                f"the wallet's newest fund is {new}, and the sweeper of {name} had seen {old}: the wallet was restored "
                "to an earlier instant; the sweeper goes on from there. Run ./run audit"
            )

    async def _publish_topology(self, factory: ProcessFactory, backing: BackingServices) -> None:
        sets = [
            SetSpec(
                name=name,
                servers=tuple(ServerSpec(name=one, url=factory.url(one)) for one in self.config.server_names(name)),
                memcached=backing.memcached.address,
            )
            for name in self.config.set_names()
        ]
        owners = {name: server.dsn(roles.OWNER, roles.DATABASE) for name, server in backing.postgres.items()}
        publisher = Publisher(self.folder.topology, owners, login())
        await publish_addresses(publisher, sets, wallet_url=factory.url(WALLET), slots=self.config.slots)
        await publisher.refresh()
        for name in self.config.set_names() if self.config.paused else ():
            await publisher.change_topology(partial(paused, set_name=name, on=True))

    async def _make_today(self, tables: DayTableService) -> bool:
        """Make today's tables; returns False if an old day still has their names."""
        try:
            await tables.make_today()
        except Refused as refusal:
            if refusal.code != OCCUPIED:
                raise
            self.notify("everything else starts; creates of today are refused until the old day is rotated")
            return False
        return True

    def _make_certificates(self, factory: ProcessFactory) -> None:
        """Make the CA and the certificates that are missing or end soon."""
        setnodes = [
            Wanted(one, f"{SETNODE}/{name}", (ports.LOOPBACK,))
            for name in self.config.set_names()
            for one in self.config.server_names(name)
        ]
        gateways = [Wanted(name, GATEWAY) for name in factory.gateway_names]
        others = [Wanted(WALLET, WALLET, (ports.LOOPBACK,)), Wanted(OPERATOR, OPERATOR)]
        for one in Certificates(self.folder.certificates).ensure([*setnodes, *gateways, *others]):
            if one.made:
                self.notify(f"made a certificate for {one.wanted.name}, until {one.until:%Y-%m-%d}")

    def _make_processes(self, factory: ProcessFactory, backing: BackingServices) -> None:
        self._wallet = factory.wallet(backing)
        self._setnodes = [one for name in self.config.set_names() for one in factory.setnodes(name, backing)]
        self._gateways = factory.gateways(backing)
        self._aside = [
            *([factory.ops(backing)] if self.config.ops else []),
            *([factory.events(backing)] if self.config.events else []),
        ]  # fmt: skip

    async def _start_processes(self) -> None:
        """Start all at once: each one's /readyz waits for those it needs, and imports are most of a start."""
        money = [one for one in self._services() if one not in self._aside]
        await all_or_first_error(*(one.start() for one in money), *(self._start_aside(one) for one in self._aside))

    async def _start_aside(self, one: Service) -> None:
        """Start what money does not need. Where it does not start, money is served; the supervisor tries on."""
        try:
            async with asyncio.timeout(ASIDE_S):
                await one.start()
        except TimeoutError:
            self.notify(f"{one.name} is not ready after {ASIDE_S:.0f} s; everything else starts")
        except (HongbaoError, OSError) as error:
            self.notify(f"everything else starts, {one.name} does not: {error}")

    def _services(self) -> list[Service]:
        """Return our own processes: those that are called before their callers."""
        return [*([self._wallet] if self._wallet else []), *self._setnodes, *self._gateways, *self._aside]

    async def _stop(self) -> None:
        """Stop all parts, whatever one of them raises; the first error is raised at the end."""
        errors: list[BaseException] = []
        if self._day_tables is not None:
            await self._day_tables.stop()
        if self._restarts is not None:
            await self._restarts.close()
        if self._supervisor is not None:
            await self._supervisor.close()
        try:
            for tier in self._stop_order():
                ended = await asyncio.gather(*(part.stop() for part in tier), return_exceptions=True)
                errors += [one for one in ended if one is not None]
            if self._factory is not None:
                self.folder.running.unlink(missing_ok=True)
        finally:
            self._exit.close()
        if errors:
            raise errors[0]

    def _stop_order(self) -> Iterable[Sequence[Part]]:
        """Yield the parts tier by tier: callers before those they call."""
        yield [*self._gateways, *self._aside]
        yield [*self._setnodes, *([self._wallet] if self._wallet else [])]
        if self._backing is not None:
            yield [self._backing.memcached, *self._backing.postgres.values()]

    def _parts(self) -> list[Part]:
        return [part for tier in self._stop_order() for part in tier]

    def _write_running(self) -> None:
        parts = [self._running_part(one) for one in self._parts()]
        progress = self._restarts.progress if self._restarts is not None else Progress()
        now = Running(pid=os.getpid(), since=_timestamp(self._began), parts=parts, restart=progress)
        now.save(self.folder.running)

    def _running_part(self, part: Part) -> RunningPart:
        since, restarts = self._started_supervisor().history(part.name)
        return RunningPart(
            name=part.name, pid=part.pid, address=part.address, log=str(part.log.path), since=_timestamp(since),
            restarts=restarts,
        )  # fmt: skip


def _timestamp(at: datetime) -> str:
    return at.isoformat(timespec="seconds")
