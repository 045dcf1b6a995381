"""Postgres connections: how they are made, lost and remade. Nothing here knows a table.

A commit is never cancelled: asyncpg's own timeouts and a cancelled task send a cancel request, which on a server with
synchronous replication turns a waiting commit into a local one. `Session` bounds a wait without one. A connection whose
outcome is unknown is terminated, never reused.
"""

import asyncio
import random
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

import asyncpg

from envelope.errors import Unavailable
from runtime import logs

CONNECT_S = 5.0
"""A connect takes milliseconds; after this long the server is away."""
LEAVE_S = 1.0
"""Work whose connection was dropped hears of it at once; what has not after this long is left behind."""

FIRST_PAUSE_S = 0.05
"""Twice this is the longest pause after a first failure; each failure more doubles it."""

T = TypeVar("T")

LOST = (asyncpg.PostgresConnectionError, asyncpg.InterfaceError, ConnectionError, OSError, TimeoutError)
"""Errors after which the outcome of a statement is unknown and the connection is useless.

Cancelled and terminated backends (57P01…57P03: admin shutdown, crash shutdown, starting up) count too: see `is_lost`.
"""

_log = logs.get("postgres")


def is_lost(error: BaseException) -> bool:
    """Say whether `error` leaves the outcome of the statement unknown."""
    if isinstance(error, LOST):
        return True
    if isinstance(error, Unavailable):
        return not error.outcome_known
    state = getattr(error, "sqlstate", None)
    return isinstance(state, str) and state.startswith(("08", "57P", "53"))


async def connect(dsn: str, **settings: str) -> Any:
    """Open one connection; raises Unavailable(`database_unavailable`) when the server is away."""
    try:
        return await asyncpg.connect(
            dsn,
            timeout=CONNECT_S,
            statement_cache_size=256,
            server_settings={"timezone": "UTC", "application_name": "hongbao", **settings},
        )
    except Exception as error:
        if is_lost(error):
            raise Unavailable("database_unavailable", f"Postgres does not answer: {error}") from error
        raise


async def close(connection: Any, limit_s: float = 2.0) -> None:
    """Close in good order within `limit_s`; a connection whose server says nothing is dropped. Never raises."""
    try:
        # Of its own as well: asyncpg's bound does not hold while it waits for a cancelled statement to end.
        async with asyncio.timeout(limit_s):
            await connection.close(timeout=limit_s)
    except Exception:  # noqa: BLE001 - closing is best effort, the server cleans up
        connection.terminate()


class Session:
    """One long-lived connection that is remade after a loss; used by one task at a time.

    `recycle_after` statements it is closed and remade, because every backend keeps about 15 KB for each table
    that it ever touched.
    """

    def __init__(
        self,
        dsn: str,
        settings: Mapping[str, str] | None = None,
        *,
        recycle_after: int = 1_000_000,
    ) -> None:
        self._dsn = dsn
        self._settings = dict(settings or {})
        self._recycle_after = recycle_after
        self._used = 0
        self._connection: Any = None

    @property
    def up(self) -> bool:
        """Whether a connection is open right now."""
        return self._connection is not None and not self._connection.is_closed()

    async def use(self) -> Any:
        """Return the open connection, connecting if need be; raises Unavailable."""
        if self._used >= self._recycle_after:
            await self.close()
        if not self.up:
            self._connection = await connect(self._dsn, **self._settings)
            self._used = 0
        self._used += 1
        return self._connection

    async def patiently(self, work: Callable[[Any], Coroutine[Any, Any, T]], limit_s: float) -> T:
        """Await `work(connection)`, connecting if need be, for at most `limit_s` in all; never sends a cancel request.

        What `work` committed is durable when this returns. Unavailable(`database_unavailable`): with `outcome_known`
        nothing was sent; without it the connection was lost or went silent, and all, some or nothing of `work` may be
        durable, now or later. Then, and when the caller is cancelled, the connection is dropped without a word to the
        server, and the next call makes another one. Other errors (SQL) pass as they are. `work` awaits nothing but
        the connection.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + limit_s
        connection = await self._use_until(end)
        task = asyncio.ensure_future(work(connection))
        try:
            await asyncio.wait({task}, timeout=max(0.0, end - loop.time()))
        finally:
            if not task.done():
                self._throw_away(connection)
                await asyncio.wait({task}, timeout=LEAVE_S)
            task.add_done_callback(_retrieve)
        if not task.done():
            raise _silent(limit_s)
        try:
            return task.result()
        except Exception as error:
            if not is_lost(error):
                raise
            self._throw_away(connection)
            raise _silent(limit_s) if loop.time() >= end else _lost(error) from error

    async def to_the_end(self, work: Callable[[Any], Coroutine[Any, Any, T]], limit_s: float) -> T:
        """The same without a task for `work`, which runs in the caller's: for who begins a transaction a millisecond.

        So there is no turn of the loop before the statement leaves, and none between Postgres' answer and those who
        wait for it.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + limit_s
        connection = await self._use_until(end)
        # Whoever waits for a connection that is thrown away hears of it at once.
        silence = loop.call_at(end, self._throw_away, connection)
        try:
            return await work(connection)
        except asyncio.CancelledError:
            # asyncpg has made a task that would send a cancel request. It has not begun, and ends with the connection.
            self._throw_away(connection)
            raise
        except Exception as error:
            if not is_lost(error):
                raise
            self._throw_away(connection)
            raise _silent(limit_s) if loop.time() >= end else _lost(error) from error
        finally:
            silence.cancel()

    async def _use_until(self, end: float) -> Any:
        """Return the open connection, connecting if need be; raises Unavailable, from `end` (loop time) on as well."""
        if self.up and self._used < self._recycle_after:
            # Nothing to wait for, so nothing to bound.
            return await self.use()
        try:
            async with asyncio.timeout_at(end):
                return await self.use()
        except TimeoutError as error:
            raise Unavailable("database_unavailable", "Postgres does not answer") from error

    def drop(self) -> None:
        """Throw the connection away without a word to the server (its transaction may still commit)."""
        if self._connection is not None:
            self._throw_away(self._connection)

    def _throw_away(self, connection: Any) -> None:
        connection.terminate()
        if self._connection is connection:
            self._connection = None

    async def close(self) -> None:
        """Close in good order, bounded in time."""
        connection, self._connection = self._connection, None
        if connection is not None and not connection.is_closed():
            await close(connection, 1.0)


def _silent(limit_s: float) -> Unavailable:
    text = f"Postgres said nothing for {limit_s:g} s; the connection was dropped"
    return Unavailable("database_unavailable", text, outcome_known=False)


def _lost(error: Exception) -> Unavailable:
    text = f"the connection to Postgres was lost: {type(error).__name__}: {error}"
    return Unavailable("database_unavailable", text, outcome_known=False)


def _retrieve(task: "asyncio.Task[Any]") -> None:
    """Take note of an error that nobody waits for any more."""
    if not task.cancelled():
        task.exception()


def backoff_s(attempt: int, *, most_s: float = 2.0) -> float:
    """Return how long to wait before the next attempt: exponential with full jitter, bounded."""
    return random.uniform(0, min(most_s, FIRST_PAUSE_S * 2 ** min(attempt, 10)))  # noqa: S311 - no secret


async def pause(attempt: int, *, most_s: float = 2.0) -> None:
    """Sleep before the next attempt (see `backoff_s`)."""
    await asyncio.sleep(backoff_s(attempt, most_s=most_s))
