"""What the contenders of `engine` run on: one Postgres for our engine and the baselines, three Redis servers."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

from loadtest.baselines.baseline import Baseline
from loadtest.baselines.books import Books, Money
from loadtest.baselines.drive import Run, drive
from loadtest.baselines.fifo import Fifo
from loadtest.baselines.memory_first import MemoryFirst
from loadtest.baselines.optimistic import Optimistic
from loadtest.baselines.pessimistic import Pessimistic
from loadtest.baselines.pool import Pool
from loadtest.baselines.redis_lua import RedisLua
from loadtest.baselines.redis_server import Persistence, RedisServer, RedisSpec
from loadtest.bench.hongbao_engine import HongbaoEngine
from loadtest.bench.oneset import one_set
from loadtest.bench.workloads import Workload

CONNECTIONS = 100
"""Connections to Postgres, shared by the baselines, which take turns."""
MANY_WAITING = 1_000
"""Opens in flight at a baseline with many envelopes, at most: it serves far fewer in parallel, the rest would queue."""
SETTINGS = {"max_connections": "160"}


@dataclass
class Arena:
    """All contenders, started. `best` is the best pool size by (name of the baseline, whether the workload is hot)."""

    hongbao: HongbaoEngine
    dsn: str
    books: Books
    pool: Pool
    baselines: dict[str, Baseline] = field(default_factory=dict)
    redis: dict[Persistence, RedisServer] = field(default_factory=dict)
    best: dict[tuple[str, bool], int] = field(default_factory=dict)

    def redis_baseline(self, persistence: Persistence) -> RedisLua:
        """Return the baseline that asks the Redis with this persistence."""
        baseline = self.baselines[redis_name(persistence)]
        if not isinstance(baseline, RedisLua):
            raise TypeError(redis_name(persistence))
        return baseline

    async def run(self, name: str, workload: Workload) -> tuple[Run, float, Money]:
        """Give a baseline its turn; returns answers, the seconds until all were in Postgres, and the money check."""
        baseline = self.baselines[name]
        self.pool.resize(self.best.get((name, workload.hot), CONNECTIONS))
        envelopes = range(workload.envelopes)
        await baseline.prepare(envelopes, workload.shares, workload.total_fen)
        asks = workload.asks(envelopes)
        waiting = workload.waiting if workload.hot else min(workload.waiting, MANY_WAITING)
        loop = asyncio.get_running_loop()
        async with baseline.writing() if isinstance(baseline, RedisLua) else contextlib.nullcontext():
            run = await drive(baseline.open, asks, waiting, seconds=workload.seconds, at_end=self.pool.send_home)
        told_at = loop.time()
        await baseline.settle()
        settled_s = run.seconds + loop.time() - told_at
        return run, settled_s, await self.books.check(run.wins, await baseline.left_fen())


def redis_name(persistence: Persistence) -> str:
    """Name the Redis contenders."""
    return f"redis_{persistence.value}"


@contextlib.asynccontextmanager
async def started_arena(folder: Path) -> AsyncIterator[Arena]:
    """Start everything for the block; all of it is stopped when the block is left."""
    async with one_set(folder, settings=SETTINGS) as parts, contextlib.AsyncExitStack() as exits:
        dsn = parts.owner
        books = await Books.make(dsn)
        exits.push_async_callback(books.close)
        pool = await Pool.connect(dsn, CONNECTIONS)
        exits.push_async_callback(pool.close)
        found = Arena(HongbaoEngine(parts), dsn, books, pool)
        found.baselines = {
            "pessimistic": Pessimistic(books, pool),
            "optimistic": Optimistic(books, pool, again=True),
            "optimistic_once": Optimistic(books, pool, again=False),
            "fifo": Fifo(books, pool),
        }
        found.baselines["memory_first"] = memory = await MemoryFirst.start(books, dsn)
        exits.push_async_callback(memory.close)
        for persistence in Persistence:
            name = redis_name(persistence)
            found.redis[persistence] = server = RedisServer(RedisSpec(folder / name, persistence))
            exits.push_async_callback(server.stop)
            await server.start()
            found.baselines[name] = lua = await RedisLua.start(books, server, dsn)
            exits.push_async_callback(lua.close)
        yield found
