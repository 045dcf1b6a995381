"""A session: one long-lived connection, remade after a loss, whose waits are bounded without a cancel request.

A commit is never cancelled: asyncpg's own timeouts, and a cancelled task, send a cancel request, which on a server with
synchronous replication turns a waiting commit into a local one. After an unknown outcome the connection is terminated,
never reused. If somebody else has cancelled the wait (`pg_cancel_backend`), Postgres says that it has committed, with a
warning: a session takes that as unknown, too.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeAlias, TypeVar

from errors import Unavailable
from runtime.postgres.connection import close, connect
from runtime.postgres.errors import Connection, is_lost

LEAVE_S = 1.0
"""Work whose connection was dropped fails at once; work that has not ended after this long is abandoned."""

_STANDBY_WAIT = "SyncRepWaitForLSN"
"""The function of Postgres that waits for a standby. What it warns of names it, in whatever language."""

T = TypeVar("T")
OnConnect: TypeAlias = Callable[[Connection], Coroutine[Any, Any, None]]


class Session:
    """One long-lived connection, remade after a loss; used by one task at a time.

    It is also remade after `recycle_after` uses, because a backend keeps memory for each table that it ever touched.
    `on_connect` is awaited with each new connection, before it is used.
    """

    def __init__(
        self,
        dsn: str,
        settings: Mapping[str, str] | None = None,
        *,
        recycle_after: int = 1_000_000,
        on_connect: OnConnect | None = None,
    ) -> None:
        self._dsn = dsn
        self._settings = dict(settings or {})
        self._recycle_after = recycle_after
        self._on_connect = on_connect
        self._used = 0
        self._connection: Connection = None
        self._unconfirmed: Connection = None
        """The connection of which a commit may be on the primary's disk alone."""

    @property
    def up(self) -> bool:
        """Whether a connection is open right now."""
        return self._connection is not None and not self._connection.is_closed()

    async def use(self) -> Connection:
        """Return the connection, opened if it is not; raises Unavailable. Statements on it have no deadline of ours."""
        if self._used >= self._recycle_after:
            await self.close()
        if not self.up:
            connection = await connect(self._dsn, **self._settings)
            connection.add_log_listener(self._hear)
            if self._on_connect is not None:
                await self._introduce(connection, self._on_connect)
            self._connection, self._used = connection, 0
        self._used += 1
        return self._connection

    async def _introduce(self, connection: Connection, on_connect: OnConnect) -> None:
        """Await what the caller does first on each new connection; if that fails, the session has none."""
        try:
            await on_connect(connection)
        except BaseException as error:
            connection.terminate()
            if is_lost(error):
                raise Unavailable("database_unavailable", f"Postgres does not answer: {error}") from error
            raise

    async def run(self, work: Callable[[Connection], Coroutine[Any, Any, T]], deadline_s: float) -> T:
        """Await `work(connection)` for `deadline_s` at most, connecting if need be; never send a cancel request.

        `work` awaits nothing but the connection. What it committed is durable when this returns. Raises Unavailable
        (`database_unavailable`): if `outcome_known`, nothing was sent; else the connection was lost or the server did
        not answer in time, and all, some or nothing of `work` may be durable, now or later. In that case, and when the
        caller is cancelled, the connection is dropped and the next call opens another one. Errors of SQL pass as they
        are.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + deadline_s
        connection = await self._use_until(end)
        task = asyncio.ensure_future(work(connection))
        try:
            await asyncio.wait({task}, timeout=max(0.0, end - loop.time()))
        finally:
            if not task.done():
                self._discard(connection)
                await asyncio.wait({task}, timeout=LEAVE_S)
            task.add_done_callback(_retrieve)
        if not task.done():
            raise _silent(deadline_s)
        try:
            result = task.result()
        except Exception as error:
            if not is_lost(error):
                raise
            self._discard(connection)
            raise _silent(deadline_s) if loop.time() >= end else _lost(error) from error
        self._check_confirmed(connection)
        return result

    async def run_inline(self, work: Callable[[Connection], Coroutine[Any, Any, T]], deadline_s: float) -> T:
        """As `run`, but `work` runs in the caller's task: for callers that begin a transaction every millisecond.

        It saves the turns of the loop before the statement is sent and after its answer has arrived.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + deadline_s
        connection = await self._use_until(end)
        # Terminating the connection makes `work` fail at once.
        silence = loop.call_at(end, self._discard, connection)
        try:
            result = await work(connection)
        except asyncio.CancelledError:
            # asyncpg has created a task that would send a cancel request; it has not begun, and ends with the
            # connection.
            self._discard(connection)
            raise
        except Exception as error:
            if not is_lost(error):
                raise
            self._discard(connection)
            raise _silent(deadline_s) if loop.time() >= end else _lost(error) from error
        finally:
            silence.cancel()
        self._check_confirmed(connection)
        return result

    def _hear(self, connection: Connection, message: Any) -> None:
        """Take a message of the server; it comes before the answer of its statement."""
        if getattr(message, "server_source_function", None) == _STANDBY_WAIT:
            self._unconfirmed = connection

    def _check_confirmed(self, connection: Connection) -> None:
        """Raise Unavailable, and drop the connection, if a wait for a standby was cancelled on it."""
        if self._unconfirmed is not connection:
            return
        self._unconfirmed = None
        self._discard(connection)
        text = "somebody has cancelled a commit's wait for its standby: it may be on one disk alone"
        raise Unavailable("database_unavailable", text, outcome_known=False)

    async def _use_until(self, end: float) -> Connection:
        """Return the connection, opened by `end` (loop time) if it is not; raises Unavailable."""
        if self.up and self._used < self._recycle_after:
            # Nothing to wait for, so nothing to bound.
            return await self.use()
        try:
            async with asyncio.timeout_at(end):
                return await self.use()
        except TimeoutError as error:
            raise Unavailable("database_unavailable", "Postgres does not answer") from error

    def drop(self) -> None:
        """Terminate the connection without telling the server; a transaction on it may still commit."""
        if self._connection is not None:
            self._discard(self._connection)

    def _discard(self, connection: Connection) -> None:
        connection.terminate()
        if self._connection is connection:
            self._connection = None

    async def close(self) -> None:
        """Close the connection, within a second."""
        connection, self._connection = self._connection, None
        if connection is not None and not connection.is_closed():
            await close(connection, 1.0)


def _silent(deadline_s: float) -> Unavailable:
    text = f"Postgres did not answer for {deadline_s:g} s; the connection was dropped"
    return Unavailable("database_unavailable", text, outcome_known=False)


def _lost(error: Exception) -> Unavailable:
    text = f"the connection to Postgres was lost: {type(error).__name__}: {error}"
    return Unavailable("database_unavailable", text, outcome_known=False)


def _retrieve(task: "asyncio.Task[Any]") -> None:
    """Mark the error of an abandoned task as retrieved."""
    if not task.cancelled():
        task.exception()
