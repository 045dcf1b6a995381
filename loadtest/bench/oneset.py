"""One SET inside the process of the benchmark, with day tables and a wallet as a section wants them.

Real Postgres and memcached; the setnode runs in our own event loop, so that opens reach its dispatcher without HTTP and
links. Everything that was started is stopped when the block is left, also by an exception.
"""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from errors import InvariantBroken
from local.service import Service, ServiceSpec
from machine import ports
from machine.memcached import Memcached, MemcachedSpec
from machine.postgres.server import Postgres, PostgresSpec
from runtime import postgres
from runtime.clock import SystemClock
from schema import roles
from schema.cluster_setup import set_up_cluster
from schema.day_tables import DayTables
from schema.migrate import migrate_set, migrate_wallet
from setnode.actors.request import OUTCOMES
from setnode.service import Setnode, running
from setnode.settings import SetnodeSettings
from sharding.ids import business_date
from sharding.slots import TABLES_PER_DATABASE
from sharding.topology import ServerSpec, SetSpec, Topology, dump
from wire.keys import GATEWAY, OPERATOR, SETNODE, WALLET, root_key
from wire.messages import Op
from wire.server import Caller

ROOT = secrets.token_hex(32)
"""Of the keys of links."""
WINDOW = 8_000
"""Opens in flight where a section needs a saturated SET."""
UNREACHABLE = "http://127.0.0.1:1"

Opens = Iterable[tuple[int, str]]
"""(envelope ID, user)."""


@dataclass(frozen=True)
class Tables:
    """The day tables of a SET: how many slots it holds, and how many days up to today, as far as their names last.

    Tomorrow's are there as well: a run that begins before midnight ends after it.
    """

    slots: int = 100
    days: int = 1

    @property
    def leaves(self) -> int:
        """Tables that hold rows: two for each slot and day, and one of guests for each database and day."""
        return (self.days + 1) * (2 * self.slots + self.slots // TABLES_PER_DATABASE)


@dataclass
class OneSet:
    """A running SET. `owner` is its DSN as owner; `wallet` and its Postgres are None where there is none."""

    node: Setnode
    owner: str
    tables: Tables
    postgres: Postgres
    wallet: Service | None = None
    wallet_postgres: Postgres | None = None

    @property
    def today(self) -> date:
        """The business day whose envelopes are made here."""
        return business_date(self.node.clock.now())

    async def scalar(self, query: str, *args: Any) -> Any:
        """Query the SET's Postgres, as owner."""
        return await _scalar(self.owner, query, *args)

    async def wallet_scalar(self, query: str) -> Any:
        """Query the wallet's Postgres, as auditor; None where there is no wallet."""
        bank = self.wallet_postgres
        return None if bank is None else await _scalar(bank.dsn(roles.AUDIT, roles.DATABASE), query)

    async def tidy(self) -> None:
        """Vacuum and checkpoint now, so that neither runs in the middle of the next measurement."""
        connection = await postgres.connect(self.postgres.dsn("postgres", roles.DATABASE))
        try:
            await connection.execute("VACUUM")
            await connection.execute("CHECKPOINT")
        finally:
            await connection.close()


async def _scalar(dsn: str, query: str, *args: Any) -> Any:
    connection = await postgres.connect(dsn)
    try:
        return await connection.fetchval(query, *args)
    finally:
        await connection.close()


class Answers(Caller):
    """Counts answers by outcome and wakes the sender when half of the window is free."""

    def __init__(self, window: int) -> None:
        super().__init__("bench")
        self.outcomes: dict[str, int] = {}
        self.in_flight = 0
        self.roomy = asyncio.Event()
        self._half = window // 2
        self._names = [outcome.value for outcome in OUTCOMES]

    def reply(self, number: int, *values: Any) -> None:
        """Count an outcome."""
        del number
        self._count(self._names[values[0]])

    def fail(self, number: int, error: BaseException) -> None:
        """Count a failure."""
        del number
        self._count(getattr(error, "code", type(error).__name__))

    def _count(self, name: str) -> None:
        self.outcomes[name] = self.outcomes.get(name, 0) + 1
        self.in_flight -= 1
        if self.in_flight <= self._half:
            self.roomy.set()


async def fire(node: Setnode, opens: Opens, window: int = WINDOW) -> float:
    """Send opens, up to `window` in flight; every one must win. Returns how many a second were committed."""
    caller = Answers(window)
    number = 0
    started = time.perf_counter()
    for number, (envelope_id, user) in enumerate(opens, 1):
        if caller.in_flight >= window:
            caller.roomy.clear()
            await caller.roomy.wait()
        caller.in_flight += 1
        node.dispatcher.handle(caller, number, Op.OPEN, [envelope_id, user, True, None])
    while caller.in_flight:
        caller.roomy.clear()
        await caller.roomy.wait()
    seconds = time.perf_counter() - started
    if caller.outcomes != {"opened": number}:
        raise InvariantBroken("every_open_wins", f"{caller.outcomes} where {number} opened were expected")
    return number / seconds


def round_robin(envelope_ids: Sequence[int], shares: int, *, first: int = 0) -> Opens:
    """Open `shares` of every envelope, one of each in turn, by users numbered from `first`."""
    return ((one, f"user-{number}") for number in range(first, first + shares) for one in envelope_ids)


def nameable_days(today: date) -> int:
    """Return how many days up to today can have tables beside tomorrow's: a name, the day of the month, stands for one.

    30 behind a month of 31 days, 27 behind a February of 28.
    """
    names = {(today + timedelta(days=1)).day}
    day = today
    while day.day not in names:
        names.add(day.day)
        day -= timedelta(days=1)
    return len(names) - 1


@asynccontextmanager
async def one_set(
    folder: Path, tables: Tables = Tables(), *, wallet: bool = False, settings: Mapping[str, str] | None = None
) -> AsyncIterator[OneSet]:
    """Start one SET of one server, in this process, for the block; `settings` go to its Postgres over ours."""
    async with AsyncExitStack() as stack:
        server = await _server(stack, folder, "set", settings)
        cache = Memcached(MemcachedSpec("memcached", folder / "memcached", folder / "memcached.log"))
        stack.push_async_callback(cache.stop)
        await cache.start()
        owner = server.dsn(roles.OWNER, roles.DATABASE)
        await migrate_set(owner)
        today = business_date(SystemClock().now())
        tables = replace(tables, days=min(tables.days, nameable_days(today)))
        first = today - timedelta(days=tables.days - 1)
        databases = range(tables.slots // TABLES_PER_DATABASE)
        await DayTables(owner, databases).ensure(first, ahead_days=tables.days)
        bank = await _server(stack, folder, "wallet") if wallet else None
        payer = await _wallet(stack, folder, bank) if bank else None
        only = SetSpec("set-1", (ServerSpec("set-1-a", UNREACHABLE),))
        url = payer.url if payer else UNREACHABLE
        topology = folder / "topology.json"
        dump(Topology(version=1, slots=tables.slots, sets=(only,), wallet_url=url), topology)
        told = SetnodeSettings(
            listen="127.0.0.1:0",
            topology=str(topology),
            set="set-1",
            server="set-1-a",
            postgres_dsn=server.dsn(roles.SETNODE, roles.DATABASE),
            memcached=cache.address,
            wallet_url=url,
            link_key=root_key(ROOT, SETNODE, "set-1").text,
            accept_keys=_accepted("set-1-a", GATEWAY, OPERATOR),
            password_key=ROOT,
        )
        node = await stack.enter_async_context(running(told))
        yield OneSet(node, owner, tables, server, payer, bank)


async def _server(
    stack: AsyncExitStack, folder: Path, kind: str, settings: Mapping[str, str] | None = None
) -> Postgres:
    passwords = {name: secrets.token_hex(8) for name in roles.roles_of(kind)}
    log = folder / f"pg-{kind}.log"
    server = Postgres(PostgresSpec(kind, folder / "pg" / kind, log, passwords, settings=settings or {}))
    stack.push_async_callback(server.stop, "immediate")
    await server.start()
    await set_up_cluster(server.dsn(), server.spec.passwords)
    return server


def _accepted(server: str, *callers: str) -> str:
    return " ".join(root_key(ROOT, role, server).text for role in callers)


async def _wallet(stack: AsyncExitStack, folder: Path, server: Postgres) -> Service:
    await migrate_wallet(server.dsn(roles.OWNER, roles.DATABASE))
    accepted = f"{_accepted(WALLET, GATEWAY, OPERATOR)} {root_key(ROOT, SETNODE).text}"
    env = {"HONGBAO_POSTGRES_DSN": server.dsn(roles.WALLET, roles.DATABASE), "HONGBAO_ACCEPT_KEYS": accepted}
    spec = ServiceSpec("wallet", "wallet", ports.LOOPBACK, ports.free_port(), env, folder / "wallet.log")
    service = Service(spec)
    stack.push_async_callback(service.stop)
    await service.start()
    return service
