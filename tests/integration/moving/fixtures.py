"""Two SETs of one server each, the wallet and a gateway, all in this loop on one movable clock, for tests of moves.

A test module imports `land` and names it in `__all__`. `Traffic` is people who create, open and look at envelopes of
one database without pause and note everything that is not as it should be.
"""

import asyncio
import contextlib
import random
import uuid
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import asyncpg
import pytest

from audit.proof import AuditTarget, audit
from audit.report import Report
from client import ApiError, Detail, Envelope, Hongbao, Patience, User
from gateway.identity.tokens import make_token
from gateway.service import Gateway, GatewaySettings
from gateway.service import running as running_gateway
from installation.access import _slots
from machine import ports
from moving.context import MoveContext
from schema import roles
from schema.day_tables import DayTables
from schema.migrate import migrate_set, migrate_wallet
from setnode.limits import ADOPT_AFTER_S
from setnode.service import Setnode, running
from setnode.settings import SetnodeSettings
from sharding.ids import business_date
from sharding.slots import Layout, place_for
from sharding.topology import ServerSpec, SetSpec, Topology, dump, load
from tests import forks
from tests.clock import ManualClock
from tests.conftest import Databases
from tests.funds import DRAFT, HEADER
from tests.integration.hanging_proxy import HangingProxy, hanging_proxy
from tests.integration.moving.move_and_die import move_and_die
from tests.integration.setnode.fixtures import wallet_process
from tests.link_keys import GATEWAY_KEY, OPERATOR_KEY, accepts, setnode_key
from tests.looks import Looks
from wire.link import Link
from wire.wallet import WalletClient

T = TypeVar("T")
KEY = "k" * 32
SETS = ("set-1", "set-2")
WAIT_S = 30.0
ZONE_HOURS = 8
NEVER_S = 1e9
"""The clock jumps and the wallet's does not: every create in flight would look as if it had died long ago."""
SMALL = Layout(30)
"""Three databases: the ring gives set-1 two of them and set-2 the third. Each costs twenty tables a day."""
PAUSE_S = 0.03
"""Between two calls of one of the people: what is tested is what goes on meanwhile, not who is fastest."""
SHORT_S = 0.3
"""Grace of most moves here; the two under watched traffic have the real one."""


@dataclass
class Land:
    """What runs, and how to reach it."""

    databases: Databases
    dsns: dict[str, str]
    wallet_dsn: str
    path: Path
    clock: ManualClock
    nodes: dict[str, Setnode]
    wallet: WalletClient
    gateway: Gateway
    looks: Looks = field(default_factory=Looks)
    proxies: dict[str, HangingProxy] = field(default_factory=dict)
    """Ways by which the tools reach a SET; the servers have their own."""

    @property
    def topology(self) -> Topology:
        return load(self.path)

    @property
    def today(self) -> date:
        return business_date(self.clock.now())

    async def fund(self, create_key: str, fingerprint: str, user: str, total_fen: int, envelope_id: int) -> None:
        """Take a create's money, as the SET that holds the envelope may."""
        (node,) = (one for one in self.nodes.values() if one.holds(envelope_id))
        await WalletClient(node.wallet_link).fund(create_key, fingerprint, user, total_fen, envelope_id, HEADER, DRAFT)

    def context(self, **more: Any) -> MoveContext:
        return MoveContext(self.path, self.owners, self.auditor, self.clock, **{"grace_s": SHORT_S, **more})

    @property
    def owners(self) -> dict[str, str]:
        dsns = {name: self.databases.dsn_as(dsn, roles.OWNER) for name, dsn in self.dsns.items()}
        return {name: self.proxies[name].through(dsn) if name in self.proxies else dsn for name, dsn in dsns.items()}

    @contextlib.asynccontextmanager
    async def reached_by_proxy(self, *set_names: str) -> AsyncIterator[dict[str, HangingProxy]]:
        """Let the tools of the block reach these SETs at other ports than before."""
        async with contextlib.AsyncExitStack() as stack:
            self.proxies = {name: await stack.enter_async_context(hanging_proxy(self.dsns[name])) for name in set_names}
            yield self.proxies
            for proxy in self.proxies.values():
                proxy.vanish()
        self.proxies = {}

    @property
    def wallet_owner(self) -> str:
        return self.databases.dsn_as(self.wallet_dsn, roles.OWNER)

    @property
    def auditor(self) -> str:
        return self.databases.dsn_as(self.wallet_dsn, roles.AUDIT)

    def database(self, set_name: str = "set-1") -> int:
        """A database that a SET holds."""
        return self.topology.databases_of(set_name)[0]

    async def tables(self, *, ahead_days: int = 0) -> None:
        """Make the day tables as the daemon does."""
        topology = self.topology
        for name, dsn in self.owners.items():
            await DayTables(dsn, partial(topology.databases_of, name)).ensure(self.today, ahead_days=ahead_days)
        for node in self.nodes.values():
            await node.days.look()

    def at(self, day: date, *, hour: int = 0, minute: int = 0, second: int = 0) -> None:
        """Set the clock to a time of the business day."""
        instant = datetime.combine(day, time(hour, minute, second), UTC) - timedelta(hours=ZONE_HOURS)
        self.clock.advance(seconds=(instant - self.clock.now()).total_seconds())

    async def on(self, set_name: str, query: str, *args: Any) -> list[Any]:
        async with self.looks.at(self.dsns[set_name]) as connection:
            return list(await connection.fetch(query, *args))

    async def sweep(self, set_name: str) -> int:
        """One round of a SET's sweeper with every fund old enough; returns how many creates it undid."""
        self.clock.advance(seconds=max(0.0, (datetime.now(UTC) - self.clock.now()).total_seconds() + 60))
        sweeper = self.nodes[set_name].sweeper
        sweeper._after_s = 0
        try:
            return (await sweeper.run_once()).undone
        finally:
            sweeper._after_s = NEVER_S

    async def register(self, set_name: str, day: date, xx: int, state: str) -> None:
        """Put a day into a state as if rotation had proven its way there."""
        connection = await asyncpg.connect(self.dsns[set_name])
        try:
            await connection.execute("ALTER TABLE day_register DISABLE TRIGGER ALL")
            await connection.execute("DELETE FROM day_register WHERE day = $1 AND xx = $2", day, xx)
            await connection.execute(
                "INSERT INTO day_register (day, xx, state, envelopes, claims, paid_in_fen, claimed_fen, refunded_fen, "
                "manifest_sha256) VALUES ($1, $2, $3, 0, 0, 0, 0, 0, $4)",
                day, xx, state, "00" * 32,
            )  # fmt: skip
            for guard in ("stays", "insert", "update", "whole"):
                await connection.execute(f"ALTER TABLE day_register ENABLE ALWAYS TRIGGER day_register_{guard}")
        finally:
            await connection.close()

    async def audit(self) -> Report:
        """As `hongbao audit` does it: each SET for what the topology gives it."""
        topology = self.topology
        targets = [
            AuditTarget(
                name, self.databases.dsn_as(dsn, roles.AUDIT), _slots(topology, name), partial(_slots, topology, name)
            )
            for name, dsn in self.dsns.items()
        ]
        with pytest.MonkeyPatch.context() as patch:
            # An intent has the time of this clock, which stands at noon, and its age is told by Postgres' own.
            patch.setattr("audit.proof.LATE_S", 86_400)
            patch.setattr("audit.proof.FUTURE_S", 7 * 86_400)
            return await audit(targets, self.auditor)

    async def settled(self) -> Report:
        """Audit until nothing is in flight."""
        # Intents that came with a move are taken up once they have lain for a while, and this clock moves by hand only.
        self.clock.advance(seconds=ADOPT_AFTER_S + 1)
        async with asyncio.timeout(WAIT_S):
            while True:
                for node in self.nodes.values():
                    node.payouts._overflow = True
                report = await self.audit()
                if not report.holds or report.sums.in_flight == 0:
                    return report
                await asyncio.sleep(0.2)

    async def tool(self, kind: str, database: str, to: str | None, die_at: str = "", **more: Any) -> tuple[int, str]:
        """Run a move in a process of its own that kills itself at a point; returns status and standard error."""
        job = {
            "kind": kind, "path": str(self.path), "owners": self.owners, "wallet": self.auditor,
            "now": self.clock.now().isoformat(), "database": database, "to": to, "die_at": die_at, **more,
        }  # fmt: skip
        ended = await forks.run(move_and_die, job, timeout_s=WAIT_S * 2)
        return ended.status, ended.err


@contextlib.asynccontextmanager
async def living_land(databases: Databases, memcached: str, folder: Path) -> AsyncIterator[Land]:
    """Start everything at noon of today, whatever the hour is: no payout counts as late by the database's own clock."""
    clock = ManualClock(datetime.combine(databases.day, time(12), UTC) - timedelta(hours=ZONE_HOURS))
    wallet_dsn = await databases.clone("wallet", migrate_wallet)
    wallet_url = f"http://127.0.0.1:{(wallet_port := ports.free_port())}"
    listens = {name: f"127.0.0.1:{ports.free_port()}" for name in SETS}
    path = folder / "topology.json"
    sets = tuple(SetSpec(name, (ServerSpec(f"{name}-a", f"http://{listen}"),)) for name, listen in listens.items())
    topology = Topology(version=1, slots=SMALL.slots, sets=sets, wallet_url=wallet_url)
    dump(topology, path)
    dsns = {
        name: await databases.clone(f"land_{name}", partial(_build, topology, name, databases.day)) for name in SETS
    }
    async with contextlib.AsyncExitStack() as stack:
        wallet_settings = databases.dsn_as(wallet_dsn, roles.WALLET)
        await stack.enter_async_context(wallet_process(wallet_settings, wallet_port, path))
        nodes = {}
        for name in SETS:
            settings = SetnodeSettings(
                listen=listens[name], topology=str(path), set=name, server=f"{name}-a",
                postgres_dsn=databases.dsn_as(dsns[name], roles.SETNODE), memcached=memcached,
                wallet_url=wallet_url, link_key=setnode_key(name).text,
                accept_keys=accepts(f"{name}-a"), password_key=KEY, sweep_after_s=NEVER_S,
            )  # fmt: skip
            nodes[name] = await stack.enter_async_context(running(settings, clock))
        gateway_settings = GatewaySettings(
            listen="127.0.0.1:0", topology=str(path), wallet_url=wallet_url,
            link_key=GATEWAY_KEY.text, token_key=KEY, share_key=KEY, slot_key=KEY,
        )  # fmt: skip
        gateway = await stack.enter_async_context(running_gateway(gateway_settings, clock))
        link = Link("wallet", wallet_url, key=OPERATOR_KEY)
        keeping = asyncio.ensure_future(link.maintain())
        async with asyncio.timeout(WAIT_S):
            while not link.up or any(one.readiness.missing() for one in (*nodes.values(), gateway)):
                await asyncio.sleep(0.01)
        land = Land(databases, dsns, wallet_dsn, path, clock, nodes, WalletClient(link), gateway)
        stack.push_async_callback(land.looks.close)
        yield land
        keeping.cancel()
        await asyncio.wait({keeping})


async def _build(topology: Topology, set_name: str, day: date, dsn: str) -> None:
    await migrate_set(dsn)
    await DayTables(dsn, topology.databases_of(set_name)).ensure(day, ahead_days=0)


@pytest.fixture
async def land(databases: Databases, memcached: str, tmp_path: Path) -> AsyncIterator[Land]:
    async with living_land(databases, memcached, tmp_path) as one:
        yield one


@dataclass
class Traffic:
    """People at the gateway's HTTP door, by the client. `failures` are answers that say anything but what they should.

    Nothing is repeated: a move has to be such that nobody is refused.
    """

    land: Land
    database: int
    seed: int = 1
    failures: list[str] = field(default_factory=list)
    envelopes: list[Envelope] = field(default_factory=list)
    heard: dict[tuple[str, str], int] = field(default_factory=dict)
    answers: int = 0
    _stop: bool = False

    def __post_init__(self) -> None:
        self._luck = random.Random(self.seed)
        self._tokens: dict[str, str] = {}
        self._hongbao: Hongbao | None = None

    @property
    def slots(self) -> range:
        """The slots of the database."""
        return range(self.database * 10, self.database * 10 + 10)

    @contextlib.asynccontextmanager
    async def busy(self, *, senders: int = 3, people: int = 8) -> AsyncIterator["Traffic"]:
        """Keep everybody busy for the block."""
        for sender in range(senders):
            await self.land.wallet.deposit(f"D{uuid.uuid4().hex}", f"sender-{sender}", 100_000_000)
        async with self._at_the_door():
            tasks = [asyncio.ensure_future(self._send_on(f"sender-{one}")) for one in range(senders)]
            tasks += [asyncio.ensure_future(self._open_on(f"user-{one}")) for one in range(people)]
            try:
                yield self
            finally:
                self._stop = True
                await asyncio.gather(*tasks)
                self._stop = False

    async def more(self, answers: int) -> None:
        """Wait for further answers."""
        goal = self.answers + answers
        async with asyncio.timeout(WAIT_S):
            while self.answers < goal:
                await asyncio.sleep(0.01)

    @contextlib.asynccontextmanager
    async def _at_the_door(self) -> AsyncIterator[None]:
        url, patience = f"http://127.0.0.1:{self.land.gateway.port}", Patience(attempts=1, attempt_s=20.0)
        async with Hongbao(url, patience=patience) as self._hongbao:
            yield

    def user(self, name: str) -> User:
        """Return one of the people."""
        if name not in self._tokens:
            self._tokens[name] = make_token(KEY, name, ttl_s=400 * 86_400, clock=self.land.clock)
        assert self._hongbao is not None
        return self._hongbao.user(self._tokens[name])

    async def _noted(self, what: str, call: Awaitable[T]) -> T | None:
        """Count an answer, and note one that is a refusal; that there is none ends the test."""
        try:
            told = await call
        except ApiError as error:
            if error.status == 0:
                raise
            self.failures.append(f"{what}: {error.status} '{error.code}' {error.detail}")
            told = None
        self.answers += 1
        return told

    def key_of(self, user: str) -> str:
        """An idempotency key that leads to the database."""
        while True:
            key = uuid.uuid4().hex
            if place_for(user, key, KEY.encode(), SMALL)[0] // 10 == self.database:
                return key

    async def create(self, user: str) -> None:
        call = self.user(user).create(total_fen=1_000, count=10, idempotency_key=self.key_of(user))
        if (made := await self._noted("create", call)) is not None:
            self.envelopes.append(made)

    async def detail(self, envelope: Envelope, user: str = "somebody") -> Detail | None:
        return await self._noted("detail", self.user(user).detail(envelope))

    async def open(self, envelope: Envelope, user: str) -> None:
        envelope_id = envelope.envelope_id
        told = await self._noted("open", self.user(user).open(envelope))
        if told is None:
            return
        if told.result in ("opened", "already_opened"):
            if told.amount_fen is None:
                self.failures.append(f"{user} was not told how much of {envelope_id}")
            elif self.heard.setdefault((envelope_id, user), told.amount_fen) != told.amount_fen:
                self.failures.append(f"{user} heard two amounts of {envelope_id}")
        elif (envelope_id, user) in self.heard:
            self.failures.append(f"{user} had won {envelope_id} and then heard {told.result}")

    async def all_stands(self) -> None:
        """What anybody was told is what the details say."""
        async with self._at_the_door():
            told = defaultdict[str, dict[str, int]](dict)
            for (envelope_id, user), fen in self.heard.items():
                told[envelope_id][user] = fen
            for envelope in self.envelopes:
                detail = await self.detail(envelope)
                claims = {one.user: one.amount_fen for one in detail.claims} if detail else {}
                assert told[envelope.envelope_id].items() <= claims.items(), envelope.envelope_id

    async def _send_on(self, user: str) -> None:
        while not self._stop:
            await self.create(user)
            await asyncio.sleep(10 * PAUSE_S)

    async def _open_on(self, user: str) -> None:
        while not self._stop:
            if not self.envelopes:
                await asyncio.sleep(0.01)
                continue
            envelope = self._luck.choice(self.envelopes[-40:])
            if self._luck.random() < 0.2:
                await self.detail(envelope, user)
            else:
                await self.open(envelope, user)
            await asyncio.sleep(PAUSE_S)
