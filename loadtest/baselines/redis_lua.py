"""Redis and a Lua pop in front, Postgres behind: the script hands out shares, a writer copies the claims to Postgres.

The answer is as durable as Redis is (`Persistence`); Postgres follows. The writer reads the queue, inserts, and only
then cuts the queue, so that its own death loses nothing; a batch that comes twice is inserted once.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from loadtest.baselines.baseline import Gone, Refusal
from loadtest.baselines.books import Books
from loadtest.baselines.redis_server import RedisServer
from machine import ports
from runtime import postgres

BATCH = 5_000
FILL_KEYS = 1_000
QUEUE = "claims"
_POP = Path(__file__).with_name("pop.lua").read_text(encoding="ascii")
_FILL = Path(__file__).with_name("fill.lua").read_text(encoding="ascii")
_LEFT = Path(__file__).with_name("left.lua").read_text(encoding="ascii")
_INSERT = """
INSERT INTO baseline.claim (envelope_id, user_id, amount_fen)
SELECT * FROM unnest($1::bigint[], $2::text[], $3::bigint[]) ON CONFLICT DO NOTHING
"""
_REFUSALS = {0: Refusal.SOLD_OUT, -1: Refusal.ALREADY}
_IDLE_S = 0.005


def key(envelope: int) -> str:
    """Return the envelope's name in Redis: twelve digits, as redis-benchmark writes its random numbers."""
    return f"{envelope:012d}"


class RedisLua:
    """One pop is a few µs of Redis. Python asks over one connection, all requests of a loop turn in one write."""

    def __init__(self, books: Books, server: RedisServer, database: Any) -> None:
        self._books = books
        self._server = server
        self._database = database
        self._redis: Any = _connect(server.port)
        self.pop_sha = ""
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._waiting: list[tuple[bytes, asyncio.Future[int]]] = []
        self._wanted = asyncio.Event()
        self._copying = asyncio.Lock()
        self._dead = False
        self._tasks: list[asyncio.Future[None]] = []

    @classmethod
    async def start(cls, books: Books, server: RedisServer, dsn: str) -> "RedisLua":
        """Connect to a server that runs."""
        baseline = cls(books, server, await postgres.connect(dsn))
        try:
            baseline.pop_sha = await baseline._redis.script_load(_POP)
            baseline._streams = await asyncio.open_connection(ports.LOOPBACK, server.port)
        except BaseException:
            await asyncio.shield(baseline.close())
            raise
        baseline._tasks = [asyncio.ensure_future(baseline._ask())]
        return baseline

    async def prepare(self, envelopes: Sequence[int], shares: int, total_fen: int) -> None:
        """Make envelopes of equal shares, all of them unopened."""
        await self._redis.flushall()
        await self._books.prepare(envelopes, shares, total_fen)
        for at in range(0, len(envelopes), FILL_KEYS):
            names = [key(one) for one in envelopes[at : at + FILL_KEYS]]
            await self._redis.eval(_FILL, len(names), *names, shares, total_fen // shares)

    @contextlib.asynccontextmanager
    async def writing(self) -> AsyncIterator[None]:
        """Run the writer beside the block, as in production."""
        over = asyncio.Event()
        # Told by an event and not cancelled: a call of redis-py may swallow a cancellation.
        writer = asyncio.ensure_future(self._write(over))
        try:
            yield
        finally:
            over.set()
            await asyncio.wait({writer})
        error = writer.exception()
        if error is not None and not self._dead:
            raise error

    async def open(self, envelope: int, user: str) -> int | Refusal:
        """Open one share in Redis."""
        if self._dead:
            raise Gone
        told: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        words = (b"EVALSHA", self.pop_sha.encode(), b"1", key(envelope).encode(), user.encode())
        self._waiting.append((b"*5\r\n" + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words), told))
        self._wanted.set()
        amount = await told
        return amount if amount > 0 else _REFUSALS[amount]

    async def _ask(self) -> None:
        """Send waiting requests and read their answers, for ever. By hand: redis-py costs far more than the pop."""
        if self._streams is None:
            return
        reader, writer = self._streams
        batch: list[tuple[bytes, asyncio.Future[int]]] = []
        try:
            while True:
                await self._wanted.wait()
                self._wanted.clear()
                batch, self._waiting = self._waiting, []
                writer.write(b"".join(request for request, _ in batch))
                for _, told in batch:
                    line = await reader.readline()
                    if not line.startswith(b":"):
                        raise ConnectionError(line.decode())
                    told.set_result(int(line[1:]))
        except OSError as error:
            self._dead = True
            for _, told in [*batch, *self._waiting]:
                if not told.done():
                    told.set_exception(Gone(str(error)))

    async def _write(self, over: asyncio.Event) -> None:
        while not over.is_set():
            if not await self._copy():
                await asyncio.sleep(_IDLE_S)

    async def _copy(self) -> int:
        """Bring one batch over; returns its size."""
        async with self._copying:
            items = await self._redis.lrange(QUEUE, 0, BATCH - 1)
            if items:
                ids, users, amounts = zip(*(item.decode().split() for item in items), strict=True)
                await self._database.execute(_INSERT, list(map(int, ids)), list(users), list(map(int, amounts)))
                await self._redis.ltrim(QUEUE, len(items), -1)
            return len(items)

    async def settle(self) -> None:
        """Copy to Postgres all that Redis still has."""
        while await self._copy():
            pass

    async def left_fen(self) -> int:
        """Return what the lists of shares still hold."""
        return int(await self._redis.eval(_LEFT, 0))

    async def kill(self) -> None:
        """Kill Redis and start it again; `settle` then copies what it still knows."""
        self._dead = True
        await self._server.kill()
        await self._server.start()
        with contextlib.suppress(RedisError, OSError):
            await self._redis.aclose()
        self._redis = _connect(self._server.port)

    async def close(self) -> None:
        """Close connections and end tasks."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        if self._streams is not None:
            self._streams[1].close()
        with contextlib.suppress(RedisError, OSError):
            await self._redis.aclose()
        await self._database.close(timeout=5.0)


def _connect(port: int) -> Any:
    # Without redis-py's retries: an LTRIM sent twice, because its answer was lost, cuts claims that were not copied.
    return Redis(host=ports.LOOPBACK, port=port, retry=Retry(NoBackoff(), 0))
