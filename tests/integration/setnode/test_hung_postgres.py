"""A Postgres that hangs without closing a connection: whoever waits hears in time, nothing is canceled, all goes on."""

import asyncio
import os
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio

from errors import Unavailable
from machine.postgres.server import Postgres
from runtime import metrics
from runtime.postgres import Session, asked, connected
from setnode import shared_session
from setnode.activation import loader
from setnode.commit import committer, invalidation
from setnode.services import expiry, sweeper
from setnode.services.payouts import finisher, payout_backlog
from tests.conftest import Databases
from tests.integration.hanging_proxy import HangingProxy, hanging_proxy
from tests.integration.setnode.fixtures import Town, living_town, module_databases, prove
from wire.messages import Op

__all__ = ["module_databases"]
pytestmark = pytest.mark.asyncio(loop_scope="module")
PATIENCE_S = 0.5
SOON_S = 20.0
"""What ends by itself ends by then, on a busy machine too; without an end it would be the test's timeout."""
LIMITS = (
    (committer, "COMMIT_DEADLINE_S"),
    (loader, "LOAD_DEADLINE_S"),
    (shared_session, "LOAD_DEADLINE_S"),
    (expiry, "SERVICE_DEADLINE_S"),
    (sweeper, "SERVICE_DEADLINE_S"),
    (payout_backlog, "SERVICE_DEADLINE_S"),
    (finisher, "SERVICE_DEADLINE_S"),
    (invalidation, "LISTEN_DEADLINE_S"),
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def proxy(postgres) -> AsyncIterator[HangingProxy]:
    async with hanging_proxy(postgres.dsn()) as one:
        yield one


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(module_databases: Databases, _memcached, tmp_path_factory, proxy: HangingProxy) -> AsyncIterator[Town]:
    folder = tmp_path_factory.mktemp("town")
    with pytest.MonkeyPatch.context() as patch:
        # For as long as the town lives: a round that began between two tests would keep its lock for the full limit.
        for module, name in LIMITS:
            patch.setattr(module, name, PATIENCE_S)
        async with living_town(module_databases, _memcached.address, folder, through=proxy.through) as one:
            yield one


@pytest_asyncio.fixture(loop_scope="module")
async def town(shared: Town, proxy: HangingProxy) -> AsyncIterator[Town]:
    """Servers whose patience is short; afterwards the books are clean, and nobody ever sent a cancel request."""
    yield shared
    proxy.wake()
    await prove(shared)
    assert proxy.cancels == 0


@pytest_asyncio.fixture(loop_scope="module")
async def session(module_databases: Databases, proxy: HangingProxy) -> AsyncIterator[Session]:
    one = Session(proxy.through(await module_databases.empty()))
    yield one
    proxy.wake()
    await one.close()
    assert proxy.cancels == 0


async def unavailable(waiting: Any) -> Unavailable:
    """Await what must end by itself."""
    async with asyncio.timeout(SOON_S):
        with pytest.raises(Unavailable) as away:
            await waiting
    return away.value


async def works_again(ask: Callable[[], Awaitable[Any]]) -> None:
    """Ask until it works, as the services do: on a busy machine one try may take longer than the short patience."""
    async with asyncio.timeout(SOON_S):
        while True:
            try:
                await ask()
            except Unavailable:
                await asyncio.sleep(0.05)
            else:
                return


both_ways = pytest.mark.parametrize("way", ["run", "run_inline"])


def asks(sql: str):
    return lambda connection: connection.fetchval(sql)


@both_ways
async def test_silence_after_a_write_is_an_unknown_outcome_and_cancels_nothing(
    session: Session, proxy: HangingProxy, way: str
) -> None:
    """The answer never comes: unknown, in time; the write is durable, and the next call has a new connection."""
    await session.run(lambda connection: connection.execute(f"CREATE TABLE {way} (n integer)"), 5)
    old = await session.use()
    proxy.silence(answers_only=True)
    away = await unavailable(getattr(session, way)(lambda c: c.execute(f"INSERT INTO {way} VALUES (1)"), PATIENCE_S))
    assert (away.code, away.outcome_known) == ("database_unavailable", False)
    assert await session.run(asks(f"SELECT count(*) FROM {way}"), 5) == 1
    assert await session.use() is not old


@both_ways
async def test_a_server_that_does_not_even_let_us_in_was_told_nothing(
    session: Session, proxy: HangingProxy, way: str
) -> None:
    """Silent while connecting: unavailable in time, and the outcome is known."""
    proxy.hang()
    assert (await unavailable(getattr(session, way)(asks("SELECT 1"), PATIENCE_S))).outcome_known
    proxy.wake()
    assert await session.run(asks("SELECT 1"), 5) == 1


@both_ways
async def test_a_caller_who_is_cancelled_cancels_nothing_on_the_server(session: Session, way: str) -> None:
    """Its task is cancelled in the middle of a statement: the connection goes, no cancel request is sent."""
    await session.run(asks("SELECT 1"), 5)
    waiting = asyncio.ensure_future(getattr(session, way)(asks("SELECT pg_sleep(60)"), 60))
    await asyncio.sleep(0.1)  # the statement must be under way
    waiting.cancel()
    assert await asyncio.gather(waiting, return_exceptions=True) != [None]
    assert not session.up
    assert await session.run(asks("SELECT 1"), 5) == 1


async def test_an_error_of_the_statement_passes_and_keeps_the_connection(session: Session) -> None:
    """Only a lost connection is made anew."""
    old = await session.use()
    with pytest.raises(Exception, match="division by zero"):
        await session.run(asks("SELECT 1 / 0"), 5)
    assert await session.use() is old


async def test_every_service_ends_its_wait_and_works_again(town: Town, proxy: HangingProxy) -> None:
    """Expiry, sweeper, payouts' reader, the reader of creates and days: unavailable in time, then as before."""
    node = town.nodes[0]
    envelope_id = await town.create(100, 2)

    everything = [
        node.expiry.run_once,
        node.sweeper.run_once,
        node.payouts.read_back,
        lambda: node._fetch(envelope_id),
        node.days.look,
    ]
    proxy.hang()
    for ask in everything:
        await unavailable(ask())
    crowd = await asyncio.gather(*(unavailable(node._fetch(envelope_id)) for _ in range(20)))
    assert {away.code for away in crowd} == {"database_unavailable"}
    proxy.wake()
    for ask in everything:
        await works_again(ask)


def silent_s() -> float:
    """What the process's metrics say."""
    found = re.search(
        r'^hongbao_database_silent_seconds{database="set-1"} (\S+)$', metrics.render().decode(), re.MULTILINE
    )
    assert found is not None
    return float(found[1])


async def test_how_long_it_is_silent_is_a_metric(town: Town, proxy: HangingProxy) -> None:
    """It grows with each scrape while Postgres hangs, also while no look ends, and falls once it answers."""
    standby = town.nodes[-1].standby
    proxy.hang()
    looking = asyncio.ensure_future(unavailable(standby.look()))
    first = silent_s()
    await asyncio.sleep(0.05)
    assert silent_s() > first
    await looking
    grown = silent_s()
    proxy.wake()
    await works_again(standby.look)
    assert silent_s() < grown


async def test_who_waits_for_a_sleeping_envelope_hears_in_time(town: Town, proxy: HangingProxy, monkeypatch) -> None:
    """The loader hangs: nothing was written and the caller is told so; awake again, the same open wins."""
    monkeypatch.setattr(loader, "STALE_S", 0.1)
    envelope_id = await town.create(100, 2)
    stranger = town.other(envelope_id)
    proxy.hang()
    away = await unavailable(town.open(envelope_id, "a", node=stranger))
    assert (away.code, away.outcome_known) == ("database_unavailable", True)
    proxy.wake()
    async with asyncio.timeout(SOON_S):
        assert (await town.open(envelope_id, "a", node=stranger))["result"] == "opened"


async def test_an_open_in_a_hung_commit_is_told_the_truth_afterwards(town: Town, proxy: HangingProxy) -> None:
    """The commit goes in but its news does not come out: the actor reads what is true and answers from it."""
    envelope_id = await town.create(100, 2)
    await town.open(envelope_id, "a")
    assert proxy.silence(b":claims", answers_only=True)
    async with asyncio.timeout(SOON_S):
        assert (await town.open(envelope_id, "b"))["result"] == "opened"
    assert await town.scalar("SELECT count(*) FROM claim WHERE envelope_id = $1", envelope_id) == 2


async def test_a_create_whose_look_back_hangs_says_that_its_money_may_have_gone(
    town: Town, proxy: HangingProxy
) -> None:
    """A retry reads what its first attempt left: while that hangs the outcome is unknown; awake, it is told."""
    await town.deposit("ann", 1_000)
    args = town.create_args("ann", 1_000, 5, "key")
    first = await town.caller.ask(town.nodes[0], Op.CREATE, args)
    proxy.hang()
    assert not (await unavailable(town.caller.ask(town.nodes[1], Op.CREATE, args))).outcome_known
    proxy.wake()
    async with asyncio.timeout(SOON_S):
        assert await town.caller.ask(town.nodes[1], Op.CREATE, args) == [True, *first[1:]]


async def test_payers_whose_rows_cannot_be_forgotten_pay_on(town: Town, proxy: HangingProxy) -> None:
    """Their connection is silent: what they paid is forgotten over a new one, and nothing is paid twice."""
    envelope_id = await town.create(1_000, 10)
    await town.open(envelope_id, "early")
    await town.paid_out()
    assert proxy.silence(b":payout")
    won = await asyncio.gather(*(town.open(envelope_id, f"p{n}") for n in range(9)))
    await town.paid_out()
    assert [await town.wallet.balance(f"p{n}") for n in range(9)] == [one["amount_fen"] for one in won]


async def test_a_listener_that_died_without_a_word_is_remade(town: Town, proxy: HangingProxy) -> None:
    """What was notified meanwhile is lost; once it listens again the owner shows what the stand-in wrote."""
    envelope_id = await town.create(1_000, 10)
    await town.open(envelope_id, "first")
    assert proxy.silence(b":listen")
    await town.open(envelope_id, "second", node=town.other(envelope_id))
    async with asyncio.timeout(SOON_S):
        while (await town.detail(envelope_id, "sender"))["claimed_count"] != 2:
            await asyncio.sleep(0.02)


async def test_a_server_that_cannot_read_is_not_ready(town: Town, proxy: HangingProxy) -> None:
    """Its days were known before: readiness goes by the last look, and comes back with an answer."""
    node = town.nodes[0]
    assert proxy.silence(b":fetch")
    # Its service may be the one that finds out, and the next look the first that is answered again.
    async with asyncio.timeout(SOON_S):
        while "database" not in node.readiness.missing():
            await asyncio.sleep(0.01)
    await node.days.look()
    assert "database" not in node.readiness.missing()


async def test_a_late_sign_of_life_costs_only_the_logs_that_were_written_meanwhile(
    town: Town, proxy: HangingProxy
) -> None:
    """After a silence the envelope that a stand-in wrote is read again; the others are shown from memory."""
    written, untouched = await town.create(1_000, 10), await town.create(1_000, 10)
    node = town.owner(written)
    while town.owner(untouched) is not node:
        untouched = await town.create(1_000, 10)
    for one in (written, untouched):
        await town.open(one, "first")
    generation, kept = node.registry.generation, node.registry._actors[untouched].log
    assert proxy.silence(b":listen")
    await town.open(written, "second", node=town.other(written))
    async with asyncio.timeout(SOON_S):
        while (await town.detail(written, "sender"))["claimed_count"] != 2:
            await asyncio.sleep(0.02)
    assert (await town.detail(untouched, "sender"))["claimed_count"] == 1
    assert node.registry.generation == generation
    assert node.registry._actors[untouched].log is kept


async def test_a_batch_of_more_envelopes_than_a_notification_names_is_named_by_the_table(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The owner reads exactly these logs again, and trusts its others."""
    monkeypatch.setattr(invalidation, "NOTIFY_IDS", 1)
    envelope_ids = [await town.create(1_000, 10) for _ in range(12)]
    stand_in = town.nodes[0]
    for one in envelope_ids:
        await town.open(one, "first")
    generations = [node.registry.generation for node in town.nodes]
    await asyncio.gather(*(town.open(one, "second", node=stand_in) for one in envelope_ids))
    async with asyncio.timeout(SOON_S):
        for one in envelope_ids:
            while (await town.detail(one, "sender"))["claimed_count"] != 2:
                await asyncio.sleep(0.02)
    assert [node.registry.generation for node in town.nodes] == generations


async def test_a_connection_whose_host_is_gone_ends_within_half_a_minute(module_databases: Databases) -> None:
    """Also for commands that wait without a deadline: the kernel probes it, and gives up what is not acknowledged."""
    async with connected(await module_databases.empty()) as connection:
        descriptor = connection._transport.get_extra_info("socket").fileno()
        with socket.socket(fileno=os.dup(descriptor)) as copy:
            assert copy.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            options = [
                copy.getsockopt(socket.IPPROTO_TCP, getattr(socket, name))
                for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT", "TCP_USER_TIMEOUT")
            ]
        assert await connection.fetchval("SELECT 1") == 1
    idle_s, between_s, probes, unacknowledged_ms = options
    assert idle_s + between_s * probes <= 30
    assert unacknowledged_ms <= 30_000


async def test_a_command_does_not_wait_for_a_frozen_postgres(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What only reads ends with a sentence; the connection is still open, so nothing else would end it."""
    monkeypatch.setattr("runtime.postgres.connection.ASKED_S", 1.0)

    async def ask(proxy: HangingProxy) -> None:
        async with asked(proxy.through(postgres.dsn())) as connection:
            assert await connection.fetchval("SELECT 1") == 1
            proxy.hang()
            await connection.fetchval("SELECT 2")

    async with hanging_proxy(postgres.dsn()) as proxy:
        with pytest.raises(Unavailable, match="does not answer: it was silent"):
            await ask(proxy)
