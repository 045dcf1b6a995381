"""Where contenders meet: one Postgres with fsync on, our engine and the rivals' tables in it, three Redis beside."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

from loadtest.bench.oneset import one_set
from loadtest.bench.ours import Ours
from loadtest.bench.workloads import Workload
from loadtest.rivals.books import Books, Money
from loadtest.rivals.drive import Run, drive
from loadtest.rivals.fifo import Fifo
from loadtest.rivals.memory_first import MemoryFirst
from loadtest.rivals.optimistic import Optimistic
from loadtest.rivals.pessimistic import Pessimistic
from loadtest.rivals.pool import Pool
from loadtest.rivals.redis_lua import RedisLua
from loadtest.rivals.redis_server import Persistence, RedisServer, RedisSpec
from loadtest.rivals.rival import Rival

CONNECTIONS = 100
"""Of the rivals together: they take turns."""
MANY_WAITING = 1_000
"""At many envelopes rivals are asked by no more at once: they take far less in parallel, the rest would only queue."""
SETTINGS = {"max_connections": "160"}


@dataclass
class Arena:
    """Everything started. `best` is how many connections a rival does best with, by (rival, hot or many)."""

    ours: Ours
    dsn: str
    books: Books
    pool: Pool
    rivals: dict[str, Rival] = field(default_factory=dict)
    redis: dict[Persistence, RedisServer] = field(default_factory=dict)
    best: dict[tuple[str, bool], int] = field(default_factory=dict)

    def redis_rival(self, persistence: Persistence) -> RedisLua:
        """Return the rival that asks the Redis with this persistence."""
        rival = self.rivals[redis_name(persistence)]
        if not isinstance(rival, RedisLua):
            raise TypeError(redis_name(persistence))
        return rival

    async def run(self, name: str, workload: Workload) -> tuple[Run, float, Money]:
        """Give a rival its turn; returns what was told, the seconds until it was settled, and the money check."""
        rival = self.rivals[name]
        self.pool.resize(self.best.get((name, workload.hot), CONNECTIONS))
        envelopes = range(workload.envelopes)
        await rival.prepare(envelopes, workload.shares, workload.total_fen)
        asks = workload.asks(envelopes)
        waiting = workload.waiting if workload.hot else min(workload.waiting, MANY_WAITING)
        loop = asyncio.get_running_loop()
        async with rival.writing() if isinstance(rival, RedisLua) else contextlib.nullcontext():
            run = await drive(rival.open, asks, waiting, seconds=workload.seconds, at_end=self.pool.send_home)
        told_at = loop.time()
        await rival.settle()
        settled_s = run.seconds + loop.time() - told_at
        return run, settled_s, await self.books.check(run.wins, await rival.left_fen())


def redis_name(persistence: Persistence) -> str:
    """Name the Redis contenders."""
    return f"redis_{persistence.value}"


@contextlib.asynccontextmanager
async def arena(folder: Path) -> AsyncIterator[Arena]:
    """Start everything; all of it has ended when the block has."""
    async with one_set(folder, settings=SETTINGS) as parts, contextlib.AsyncExitStack() as exits:
        dsn = parts.owner
        books = await Books.make(dsn)
        exits.push_async_callback(books.close)
        pool = await Pool.connect(dsn, CONNECTIONS)
        exits.push_async_callback(pool.close)
        found = Arena(Ours(parts), dsn, books, pool)
        found.rivals = {
            "pessimistic": Pessimistic(books, pool),
            "optimistic": Optimistic(books, pool, again=True),
            "optimistic_once": Optimistic(books, pool, again=False),
            "fifo": Fifo(books, pool),
        }
        found.rivals["memory_first"] = memory = await MemoryFirst.start(books, dsn)
        exits.push_async_callback(memory.close)
        for persistence in Persistence:
            name = redis_name(persistence)
            found.redis[persistence] = server = RedisServer(RedisSpec(folder / name, persistence))
            exits.push_async_callback(server.stop)
            await server.start()
            found.rivals[name] = lua = await RedisLua.start(books, server, dsn)
            exits.push_async_callback(lua.close)
        yield found
