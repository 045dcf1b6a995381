"""The baselines on real Postgres and Redis: each hands out right shares, and what it loses is counted."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import asyncpg
import pytest
import pytest_asyncio

from loadtest.baselines import redis_client
from loadtest.baselines.baseline import Baseline, Gone, Refusal
from loadtest.baselines.books import Books
from loadtest.baselines.drive import drive
from loadtest.baselines.fifo import Fifo
from loadtest.baselines.memory_first import MemoryFirst
from loadtest.baselines.optimistic import Optimistic
from loadtest.baselines.pessimistic import Pessimistic
from loadtest.baselines.pool import Pool
from loadtest.baselines.redis_lua import RedisLua
from loadtest.baselines.redis_server import Persistence, RedisServer, RedisSpec
from tests.conftest import Databases

ENVELOPES, SHARES, TOTAL_FEN, USERS = range(3), 4, 400, 6
ASKS = [(envelope, f"user-{user}") for user in range(USERS) for envelope in ENVELOPES]


class Field:
    """A database with the baselines' tables, and what must be closed at the end."""

    def __init__(self, dsn: str, books: Books, folder: Path, exits: AsyncExitStack) -> None:
        self.dsn = dsn
        self.books = books
        self._folder = folder
        self._exits = exits

    async def pool(self) -> Pool:
        pool = await Pool.connect(self.dsn, 4)
        self._exits.push_async_callback(pool.close)
        return pool

    async def memory(self) -> MemoryFirst:
        baseline = await MemoryFirst.start(self.books, self.dsn)
        self._exits.push_async_callback(baseline.close)
        return baseline

    async def server(self, persistence: Persistence) -> RedisServer:
        server = RedisServer(RedisSpec(self._folder / f"redis-{persistence}", persistence))
        self._exits.push_async_callback(server.stop)
        await server.start()
        return server

    async def redis(self, server: RedisServer) -> RedisLua:
        baseline = await RedisLua.start(self.books, server, self.dsn)
        self._exits.push_async_callback(baseline.close)
        return baseline


@pytest_asyncio.fixture
async def field(databases: Databases, server_folder: Path) -> AsyncIterator[Field]:
    async with AsyncExitStack() as exits:
        dsn = await databases.empty()
        books = await Books.make(dsn)
        exits.push_async_callback(books.close)
        yield Field(dsn, books, server_folder, exits)


MAKERS: dict[str, Callable[[Field], Awaitable[Baseline]]] = {}


def _maker(make: Callable[[Field], Awaitable[Baseline]]) -> Callable[[Field], Awaitable[Baseline]]:
    MAKERS[make.__name__] = make
    return make


@_maker
async def pessimistic(field: Field) -> Baseline:
    return Pessimistic(field.books, await field.pool())


@_maker
async def optimistic(field: Field) -> Baseline:
    return Optimistic(field.books, await field.pool(), again=True)


@_maker
async def fifo(field: Field) -> Baseline:
    return Fifo(field.books, await field.pool())


@_maker
async def memory_first(field: Field) -> Baseline:
    return await field.memory()


@_maker
async def redis_lua(field: Field) -> Baseline:
    return await field.redis(await field.server(Persistence.EVERYSEC))


@pytest.mark.parametrize("name", MAKERS)
async def test_each_baseline_gives_every_share_once(field: Field, name: str) -> None:
    """With more users than shares all are won, the rest hear that it is sold out, and every fen is accounted for."""
    baseline = await MAKERS[name](field)
    await baseline.prepare(ENVELOPES, SHARES, TOTAL_FEN)
    run = await drive(baseline.open, ASKS, 5, seconds=30.0)
    await baseline.settle()
    assert len(run.wins) == len(ENVELOPES) * SHARES
    assert run.refused == {Refusal.SOLD_OUT: len(ENVELOPES) * (USERS - SHARES)}
    assert sum(amount for _, _, amount in run.wins) == len(ENVELOPES) * TOTAL_FEN
    money = await field.books.check(run.wins, await baseline.left_fen())
    assert money.holds, money
    assert money.stored == len(run.wins)


@pytest.mark.parametrize("name", MAKERS)
async def test_no_baseline_gives_a_user_two_shares(field: Field, name: str) -> None:
    """A second open of the same user wins nothing and takes nothing."""
    baseline = await MAKERS[name](field)
    await baseline.prepare(ENVELOPES, SHARES, TOTAL_FEN)
    run = await drive(baseline.open, [(0, "user"), (0, "user"), (1, "user")], 1, seconds=30.0)
    await baseline.settle()
    assert run.refused == {Refusal.ALREADY: 1}
    money = await field.books.check(run.wins, await baseline.left_fen())
    assert money.holds, money


async def test_without_trying_again_a_conflict_is_told(field: Field) -> None:
    """Optimistic without retry: who meets another hears so; whoever was told an amount has it."""
    baseline = Optimistic(field.books, await field.pool(), again=False)
    await baseline.prepare(ENVELOPES, SHARES, TOTAL_FEN)
    run = await drive(baseline.open, ASKS, 12, seconds=30.0)
    assert len(run.wins) + sum(run.refused.values()) == len(ASKS)
    assert run.wins
    money = await field.books.check(run.wins, await baseline.left_fen())
    assert money.holds, money


async def test_memory_first_killed_loses_what_it_had_answered(field: Field) -> None:
    """Answers whose claims the writer had not brought over are counted as lost, those that it had are not.

    The writer takes the first claim as soon as it is there; that one is on its way and may arrive, as in life.
    """
    baseline = await field.memory()
    await baseline.prepare(ENVELOPES, SHARES, TOTAL_FEN)
    before = await drive(baseline.open, ASKS[:3], 1, seconds=30.0)
    await baseline.settle()
    blocker = await asyncpg.connect(field.dsn)
    try:
        async with blocker.transaction():
            # The writer is held up, as by a slow disk.
            await blocker.execute("LOCK TABLE baseline.claim IN SHARE MODE")
            after = await drive(baseline.open, ASKS[3:9], 1, seconds=30.0)
            await baseline.kill()
    finally:
        await blocker.close()
    with pytest.raises(Gone):
        await baseline.open(0, "too late")
    await baseline.settle()
    assert (len(before.wins), len(after.wins)) == (3, 6)
    assert await field.books.lost(before.wins) == 0
    assert await field.books.lost([*before.wins, *after.wins]) in (5, 6)


@pytest.mark.parametrize(("persistence", "lost"), [(Persistence.MEMORY, 9), (Persistence.ALWAYS, 0)])
async def test_redis_killed_loses_what_it_had_not_written(field: Field, persistence: Persistence, lost: int) -> None:
    """After SIGKILL and a new start the writer brings over what the file holds: everything, or without one nothing."""
    baseline = await field.redis(await field.server(persistence))
    await baseline.prepare(ENVELOPES, SHARES, TOTAL_FEN)
    run = await drive(baseline.open, ASKS[:9], 3, seconds=30.0)
    await baseline.kill()
    with pytest.raises(Gone):
        await baseline.open(0, "too late")
    await baseline.settle()
    assert len(run.wins) == 9
    assert await field.books.lost(run.wins) == lost


@pytest.mark.long
async def test_redis_own_client_pops_the_same_shares(field: Field) -> None:
    """redis-benchmark runs the pop; what it took out is brought over and adds up."""
    server = await field.server(Persistence.MEMORY)
    baseline = await field.redis(server)
    for envelopes in (1, 50):
        await baseline.prepare(range(envelopes), 600, 60_000)
        assert await redis_client.ask(server, baseline.pop_sha, envelopes=envelopes, requests=500) > 0
        await baseline.settle()
        money = await field.books.balance(await baseline.left_fen())
        assert money.holds, money
        assert 400 < money.stored <= 500


async def test_the_check_finds_what_is_missing(field: Field) -> None:
    """A claim that is gone, or one that nobody was told of, does not pass the money check."""
    baseline = await pessimistic(field)
    await baseline.prepare(ENVELOPES, SHARES, TOTAL_FEN)
    run = await drive(baseline.open, ASKS[:6], 2, seconds=30.0)
    connection = await asyncpg.connect(field.dsn)
    try:
        await connection.execute("DELETE FROM baseline.claim WHERE envelope_id = 0 AND user_id = 'user-0'")
        money = await field.books.check(run.wins, await baseline.left_fen())
        assert (money.lost, money.holds) == (1, False)
        assert money.unreconciled_fen > 0
    finally:
        await connection.close()
