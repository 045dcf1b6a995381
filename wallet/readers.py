"""Connections for reads: a few sessions shared by all callers, with bounds on waiting callers and on their wait.

As long as Postgres answers, a read ends within READ_TIMEOUT_MS (a server-side statement timeout). If Postgres goes
silent without closing its connections, a read ends after READ_DEADLINE_S, and its connection is dropped: three reads
would otherwise hold all connections, and every later read would be refused, until TCP gives up.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from errors import Unavailable
from runtime.postgres import Session, is_lost
from wallet.limits import BUSY_RETRY_S, MAX_WAITING_READS, READ_DEADLINE_S, READ_TIMEOUT_MS, READ_WAIT_S, READERS

T = TypeVar("T")

_SETTINGS = {
    "statement_timeout": str(READ_TIMEOUT_MS),
    "default_transaction_read_only": "on",
    # A page is an index range whatever its parameters are: planning it again costs more than it can save.
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "jit": "off",
}


class Readers:
    """Runs one read at a time on each of `READERS` sessions. Reads may be cancelled: they change nothing."""

    def __init__(self, dsn: str, readers: int = READERS) -> None:
        self._sessions = [Session(dsn, _SETTINGS) for _ in range(readers)]
        self._free: asyncio.LifoQueue[Session] = asyncio.LifoQueue()
        for session in self._sessions:
            self._free.put_nowait(session)
        self._waiting = 0
        self.up = False
        """Whether the read that ended last was answered by Postgres; False before the first."""
        self._answered_at = time.monotonic()

    @property
    def silent_s(self) -> float:
        """For how long Postgres has not answered a read; at most the pause between two checks longer, s."""
        return time.monotonic() - self._answered_at

    def _answered(self) -> None:
        self.up, self._answered_at = True, time.monotonic()

    async def check(self) -> None:
        """Read nothing, so that `up` is of now; raises as `fetch`."""
        await self.fetch("SELECT 1")

    async def fetch(self, sql: str, *args: Any) -> list[Any]:
        """Return the rows of a read; raises Unavailable(`busy` | `database_unavailable`)."""
        session = await self._acquire()
        try:
            rows = await session.run(lambda connection: connection.fetch(sql, *args), READ_DEADLINE_S)
            self._answered()
            return list(rows)
        except Exception as error:
            if is_lost(error) or isinstance(error, Unavailable):
                self.up = False
                # A read changes nothing, so its outcome is known.
                raise Unavailable("database_unavailable", f"the wallet's database is away: {error}") from error
            self._answered()
            if getattr(error, "sqlstate", None) == "57014":
                raise Unavailable("busy", "the read took too long; try again", retry_after_s=BUSY_RETRY_S) from error
            raise
        finally:
            self._free.put_nowait(session)

    async def run(self, work: Callable[[Any], Coroutine[Any, Any, T]]) -> T:
        """Return what `work(connection)` returns, which reads; raises as `fetch`."""
        session = await self._acquire()
        try:
            return await session.run(work, READ_DEADLINE_S)
        finally:
            self._free.put_nowait(session)

    async def _acquire(self) -> Session:
        if self._waiting >= MAX_WAITING_READS:
            raise Unavailable("busy", "too many reads wait; try again shortly", retry_after_s=BUSY_RETRY_S)
        self._waiting += 1
        try:
            async with asyncio.timeout(READ_WAIT_S):
                return await self._free.get()
        except TimeoutError:
            raise Unavailable("busy", "no read got through in time; try again", retry_after_s=BUSY_RETRY_S) from None
        finally:
            self._waiting -= 1

    async def close(self) -> None:
        """Close all sessions, bounded in time."""
        for session in self._sessions:
            await session.close()
