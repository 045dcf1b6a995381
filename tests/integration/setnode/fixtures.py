"""A small town for tests: one SET with two servers and the wallet, in this loop, on real Postgres and memcached.

A test module imports `town` and names it in `__all__`.
"""

import asyncio
import contextlib
import itertools
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from archive.place import Archive
from archive.store import root_of
from audit.proof import AuditTarget, audit
from audit.proofs import Proofs
from audit.report import Report
from errors import HongbaoError, Unavailable
from machine import ports
from machine.memcached import Memcached
from machine.postgres.server import Postgres
from runtime import postgres
from runtime.clock import Clock, SystemClock
from schema import roles
from schema.day_tables import DayTables
from schema.migrate import migrate_set, migrate_wallet
from setnode.actors.request import OUTCOMES
from setnode.service import Setnode, running
from setnode.settings import SetnodeSettings
from sharding.ids import candidate_ids, first_id_at
from sharding.slots import Layout, place_for
from sharding.topology import ServerSpec, SetSpec, Topology, dump
from tests.conftest import Databases
from tests.link_keys import OPERATOR_KEY, accepts, setnode_key
from tests.looks import Looks
from wallet.service import Settings as WalletSettings
from wallet.service import serve
from wire.link import Link
from wire.messages import Op
from wire.orders import create_key
from wire.server import Caller
from wire.wallet import WALLET_UNAVAILABLE, WalletClient

KEY = b"sixteen bytes key"
PASSWORD_KEY = "the key of passwords in tests"
SERVERS = ("set-1-a", "set-1-b")
WAIT_S = 20.0
SMALL = Layout(30)
XXS = range(SMALL.slots // 10)
"""Three databases: a town's tables cost more than what most tests do with them."""


class DirectCaller(Caller):
    """Sends requests straight to a server's room and awaits the answers; notes the order in which they came."""

    def __init__(self) -> None:
        super().__init__("caller")
        self.order: list[int] = []
        self._waiting: dict[int, asyncio.Future[list[Any]]] = {}
        self._numbers = itertools.count(1)

    def ask(self, node: Setnode, op: Op, args: list[Any]) -> "asyncio.Future[list[Any]]":
        number = next(self._numbers)
        future = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            node.dispatcher.handle(self, number, op, args)
        except HongbaoError as error:
            self.fail(number, error)
        return future

    def reply(self, number: int, *values: Any) -> None:
        self.order.append(number)
        future = self._waiting.pop(number)
        if not future.done():
            # As it comes off the link, and what is only shown as its reader has it.
            come = msgspec.msgpack.decode(msgspec.msgpack.encode(list(values)))
            future.set_result([msgspec.json.decode(one) if isinstance(one, bytes) else one for one in come])

    def fail(self, number: int, error: BaseException) -> None:
        self.order.append(number)
        future = self._waiting.pop(number)
        if not future.done():
            future.set_exception(error)


class Town:
    """Two servers of one SET, the wallet, and shorthands for what people do."""

    def __init__(self, nodes: list[Setnode], wallet: WalletClient, set_dsn: str, wallet_dsn: str, clock: Clock) -> None:
        self.nodes = nodes
        self.wallet = wallet
        self.caller = DirectCaller()
        self.set_dsn = set_dsn
        self.wallet_dsn = wallet_dsn
        self.clock = clock
        self.databases: Databases | None = None
        self.looks = Looks()

    def owner(self, envelope_id: int) -> Setnode:
        return next(node for node in self.nodes if node.owns(envelope_id))

    def other(self, envelope_id: int) -> Setnode:
        return next(node for node in self.nodes if not node.owns(envelope_id))

    async def deposit(self, user: str, fen: int) -> None:
        await self.wallet.deposit(f"D{uuid.uuid4().hex}", user, fen)

    def create_args(self, sender: str, total_fen: int, count: int, key: str, **terms: Any) -> list[Any]:
        ids = candidate_ids(first_id_at(self.clock.now()), *place_for(sender, key, KEY, SMALL), 3)
        body = {
            "kind": "lucky", "split": "double_mean", "total_fen": total_fen, "count": count, "greeting": "",
            "expires_in_s": 86_400, **terms,
        }  # fmt: skip
        fingerprint = f"{total_fen}/{count}/{sorted(terms.items())}"
        return [sender, create_key(sender, key), fingerprint, ids, body]

    async def create(
        self, total_fen: int, count: int, *, sender: str = "sender", key: str | None = None, **terms: Any
    ) -> int:
        await self.deposit(sender, total_fen)
        args = self.create_args(sender, total_fen, count, key or uuid.uuid4().hex, **terms)
        _, envelope_id, view = await self.caller.ask(self.owner(args[3][0]), Op.CREATE, args)
        assert view["envelope_id"] == str(envelope_id)
        return int(envelope_id)

    async def open(
        self, envelope_id: int, user: str, *, node: Setnode | None = None, token_ok: bool = True,
        password: str | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        args = [envelope_id, user, token_ok, password]
        return told(await self.caller.ask(node or self.owner(envelope_id), Op.OPEN, args))

    async def grab(self, envelope_id: int, user: str, *, token_ok: bool = True) -> dict[str, Any]:
        return told(await self.caller.ask(self.owner(envelope_id), Op.GRAB, [envelope_id, user, token_ok]))

    async def detail(self, envelope_id: int, user: str, *, token_ok: bool = True) -> dict[str, Any]:
        args = [envelope_id, user, token_ok]
        return (await self.caller.ask(self.owner(envelope_id), Op.DETAIL, args))[0]

    async def ask_detail(self, envelope_id: int, *, node: Setnode) -> dict[str, Any]:
        return (await self.caller.ask(node, Op.DETAIL, [envelope_id, "sender", True]))[0]

    async def cancel(self, envelope_id: int, user: str) -> dict[str, Any]:
        return (await self.caller.ask(self.owner(envelope_id), Op.CANCEL, [envelope_id, user]))[0]

    async def paid_out(self) -> None:
        """Wait until no payout intent is left."""
        async with asyncio.timeout(WAIT_S):
            while await self.scalar("SELECT count(*) FROM payout_batch"):
                await asyncio.sleep(0.02)

    async def cut_off(self, connection: Any) -> None:
        """End a connection to the SET's Postgres from the server's side; returns once its driver has noticed."""
        async with postgres.connected(self.set_dsn) as other, asyncio.timeout(10):
            await other.execute("SELECT pg_terminate_backend($1)", connection.get_server_pid())
            while not connection.is_closed():
                await asyncio.sleep(0.01)

    async def scalar(self, query: str, *args: Any, wallet: bool = False) -> Any:
        async with self.looks.at(self.wallet_dsn if wallet else self.set_dsn) as connection:
            return await connection.fetchval(query, *args)

    async def rows(self, query: str, *args: Any, wallet: bool = False) -> list[Any]:
        async with self.looks.at(self.wallet_dsn if wallet else self.set_dsn) as connection:
            return list(await connection.fetch(query, *args))

    @contextlib.contextmanager
    def nothing_paid(self) -> Iterator[None]:
        """For the block no payout reaches the wallet; what is claimed meanwhile is paid afterwards."""

        async def away(_orders: Any) -> Any:
            raise Unavailable(WALLET_UNAVAILABLE, "away")

        with pytest.MonkeyPatch.context() as patch:
            for node in self.nodes:
                patch.setattr(node.payer._wallet, "pay", away)
            yield

    async def audit(self, *, provider: bool = False, proofs: Proofs | None = None) -> Report:
        """Audit with the auditor's own role; without `proofs` everything is read."""
        assert self.databases is not None
        own, wallet = (self.databases.dsn_as(dsn, roles.AUDIT) for dsn in (self.set_dsn, self.wallet_dsn))
        settings = self.nodes[0].settings
        archive = Archive(root_of(settings.archive), settings.archive_key.encode()) if settings.archive else None
        target = AuditTarget("set-1", own, range(SMALL.slots))
        return await audit([target], wallet, archive=archive, provider=provider, proofs=proofs)


def told(values: list[Any]) -> dict[str, Any]:
    outcome, amount_fen, seq, last, extra = values
    return {"result": OUTCOMES[outcome].value, "amount_fen": amount_fen, "seq": seq, "last": last, **(extra or {})}


async def build_set(day: date, dsn: str) -> None:
    """Make a SET with the tables of `day` and of the two after it."""
    await migrate_set(dsn)
    await DayTables(dsn, XXS).ensure(day, ahead_days=2)


@contextlib.asynccontextmanager
async def wallet_process(dsn: str, port: int, topology: Path | str = "") -> AsyncIterator[None]:
    """The whole wallet, listening, in this loop."""
    stop = asyncio.Event()
    task = asyncio.ensure_future(
        serve(
            WalletSettings(
                listen=f"127.0.0.1:{port}", postgres_dsn=dsn, accept_keys=accepts("wallet"), topology=str(topology)
            ),
            stop,
        )
    )
    try:
        yield
    finally:
        stop.set()
        await task


@contextlib.asynccontextmanager
async def living_town(
    databases: Databases,
    memcached: str,
    folder: Path,
    clock: Clock | None = None,
    *,
    through: Callable[[str], str] = lambda dsn: dsn,
    **settings: Any,
) -> AsyncIterator[Town]:
    """Start everything; `through` gives the DSN by which the servers reach the SET's Postgres (a proxy's)."""
    set_dsn = await databases.clone("set", partial(build_set, databases.day))
    wallet_dsn = await databases.clone("wallet", migrate_wallet)
    wallet_url = f"http://127.0.0.1:{(wallet_port := ports.free_port())}"
    listens = {name: f"127.0.0.1:{ports.free_port()}" for name in SERVERS}
    servers = tuple(ServerSpec(name, f"http://{listen}") for name, listen in listens.items())
    dump(
        Topology(version=1, slots=SMALL.slots, sets=(SetSpec("set-1", servers),), wallet_url=wallet_url),
        folder / "t.json",
    )
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(
            wallet_process(databases.dsn_as(wallet_dsn, roles.WALLET), wallet_port, folder / "t.json")
        )
        nodes = [
            await stack.enter_async_context(
                running(
                    SetnodeSettings(
                        listen=listens[name], topology=str(folder / "t.json"), set="set-1", server=name,
                        postgres_dsn=through(databases.dsn_as(set_dsn, roles.SETNODE)), memcached=memcached,
                        wallet_url=wallet_url, link_key=setnode_key().text, accept_keys=accepts(name),
                        password_key=PASSWORD_KEY, **settings,
                    ),
                    clock,
                )
            )
            for name in SERVERS
        ]  # fmt: skip
        link = Link("wallet", wallet_url, key=OPERATOR_KEY)
        keeping = asyncio.ensure_future(link.maintain())
        async with asyncio.timeout(WAIT_S):
            while not link.up or any(node.readiness.missing() for node in nodes):
                await asyncio.sleep(0.01)
        town = Town(nodes, WalletClient(link), set_dsn, wallet_dsn, clock or SystemClock())
        town.databases = databases
        stack.push_async_callback(town.looks.close)
        yield town
        keeping.cancel()
        await asyncio.wait({keeping})


def unswept() -> dict[str, Any]:
    """Settings of a town whose rows a test edits: no sweeper undoes meanwhile what an edit leaves without a header."""
    return {"sweep_after_s": 86_400.0}


async def prove(one: Town) -> None:
    """Wait until everything is paid; then the books must be clean."""
    for node in one.nodes:
        node.payouts._overflow = True  # what only Postgres knows is read back now, not after it counts as left lying
    async with asyncio.timeout(WAIT_S):
        while True:
            await one.paid_out()
            report = await one.audit()
            assert report.holds, report.violations
            if report.sums.in_flight == 0:
                break  # else an envelope has ended between the two looks, and its refund is on its way
    assert report.sums.stuck == 0


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def module_databases(postgres: Postgres, _built_templates: set[str]) -> AsyncIterator[Databases]:
    """Databases that live as long as the test module."""
    factory = Databases(postgres, _built_templates)
    yield factory
    await factory.drop_all()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_town(
    request: pytest.FixtureRequest, module_databases: Databases, _memcached: Memcached, tmp_path_factory: Any
) -> AsyncIterator[Town]:
    """One town for a whole module (a town takes seconds); TOWN in the module gives clock and settings.

    Such a module says `pytestmark = pytest.mark.asyncio(loop_scope="module")` and uses `common_town`.
    """
    settings = getattr(request.module, "TOWN", dict)()
    folder = tmp_path_factory.mktemp("town")
    async with living_town(module_databases, _memcached.address, folder, **settings) as one:
        yield one


@pytest_asyncio.fixture(loop_scope="module")
async def common_town(shared_town: Town) -> AsyncIterator[Town]:
    """The module's town; its books must be clean after every test."""
    yield shared_town
    await prove(shared_town)


@pytest.fixture
async def town(databases: Databases, memcached: str, tmp_path: Path) -> AsyncIterator[Town]:
    """A town whose books must be clean at the end."""
    async with living_town(databases, memcached, tmp_path) as one:
        yield one
        await prove(one)
