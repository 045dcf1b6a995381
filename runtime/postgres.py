"""Postgres connections: opened, closed, lost and remade.

A commit is never cancelled: asyncpg's own timeouts, and a cancelled task, send a cancel request, which on a server with
synchronous replication turns a waiting commit into a local one. `Session.run` and `run_inline` bound a wait without a
cancel request. After an unknown outcome the connection is terminated, never reused. If somebody else has cancelled the
wait (`pg_cancel_backend`), Postgres says that it has committed, with a warning: a session takes that as unknown, too.
"""

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from typing import Any, TypeAlias, TypeVar

import asyncpg

from errors import HongbaoError, Unavailable
from runtime import logs, scram_only
from runtime.dsn import each, place, tls_environment, wanted
from runtime.keepalive import notice_a_host_that_is_gone
from runtime.race import first_of
from runtime.tls_errors import sentence_of

CONNECT_S = 5.0
"""A connection is made in milliseconds; after this long the server counts as away."""
ASKED_S = 15.0
"""What a command reads takes a second at most; a Postgres that is frozen never answers, and keeps its connections."""
NEXT_HOST_S = 0.3
"""A host of a cluster that has not answered for so long may be gone: the next one is tried beside it."""
LEAVE_S = 1.0
"""Work whose connection was dropped fails at once; work that has not ended after this long is abandoned."""

FIRST_PAUSE_S = 0.05
"""Twice this is the longest pause after a first failure; each further failure doubles it."""

TELL_AGAIN_S = 60.0
MOST_TOLD = 100
"""How often a process says in its log that a server's certificate is not accepted, and of how many servers."""

T = TypeVar("T")

Connection: TypeAlias = Any
"""An `asyncpg.Connection`; asyncpg has no types."""

LOST = (
    asyncpg.PostgresConnectionError, asyncpg.InterfaceError, asyncpg.InternalClientError, ConnectionError, OSError,
    TimeoutError,
)  # fmt: skip
"""Errors after which the outcome of a statement is unknown and the connection is useless.

InternalClientError comes where the server ends the connection in the moment in which a statement is sent.

Cancelled and terminated backends (57P01…57P03: admin shutdown, crash shutdown, starting up) count too, and a server
that takes no writes any more (25006: it is a standby now): see `is_lost`.
"""

_STANDBY_WAIT = "SyncRepWaitForLSN"
"""The function of Postgres that waits for a standby. What it warns of names it, in whatever language."""
_UNIQUE_VIOLATION = "23505"
_READ_ONLY = "25006"

_log = logs.get("postgres")
_told_at: dict[str, float] = {}
scram_only.install()


def is_lost(error: BaseException) -> bool:
    """Say whether `error` leaves the outcome of the statement unknown."""
    if isinstance(error, LOST):
        return True
    if isinstance(error, Unavailable):
        return not error.outcome_known
    state = getattr(error, "sqlstate", None)
    return isinstance(state, str) and state.startswith(("08", "57P", "53", _READ_ONLY))


def is_bad_row(error: BaseException) -> bool:
    """Say whether Postgres refused a statement because of what a row says (a text, a number, a rule of the schema).

    The statement wrote nothing, and will be refused again as long as it has that row: write the others without it. A
    violated unique key does not count: it says that the row is already there.
    """
    state = getattr(error, "sqlstate", None)
    return isinstance(state, str) and state.startswith(("22", "23")) and state != _UNIQUE_VIOLATION


@contextlib.contextmanager
def loss_told(what: str) -> Iterator[None]:
    """If a connection is lost in the block, raise Unavailable `database_unavailable` in place of the driver's error.

    `what`: what the block was doing, and what to do now; it ends the sentence "a database went away …".
    """
    try:
        yield
    except Exception as error:
        of_a_file = isinstance(error, OSError) and not isinstance(error, ConnectionError | TimeoutError)
        if isinstance(error, HongbaoError) or of_a_file or not is_lost(error):
            raise
        text = f"a database went away {what}: {error}"
        raise Unavailable("database_unavailable", text, outcome_known=False) from error


class LoginRefused(Unavailable):
    """Postgres answers and does not let us in: for those who call us it is away, an operator must mend it."""

    def __init__(self, detail: str) -> None:
        super().__init__("database_unavailable", detail)


async def connect(dsn: str, **settings: str) -> Connection:
    """Open a connection; the caller closes it (see `connected`).

    Raises Unavailable `database_unavailable`; of it LoginRefused for another password, no such role or database.

    Of several hosts each is tried in turn, the next one NEXT_HOST_S later or once one has failed, and the first that
    fits is taken: asyncpg by itself waits for a host that is silent until its time for all of them is over. While one
    is silent the others are asked again and again: a standby among them may be promoted.
    """

    async def open_one(one: str) -> Connection:
        return await asyncpg.connect(
            one,
            timeout=CONNECT_S,
            target_session_attrs=wanted(one),
            statement_cache_size=256,
            server_settings={"timezone": "UTC", "application_name": "hongbao", **settings},
        )

    try:
        connection = await first_of(
            each(dsn), open_one, pause_s=NEXT_HOST_S, again_s=CONNECT_S, drop=_drop, weight=_tells_most
        )
        notice_a_host_that_is_gone(connection)
        return connection
    except (asyncpg.InvalidAuthorizationSpecificationError, asyncpg.InvalidCatalogNameError) as error:
        raise LoginRefused(
            f"Postgres at {place(dsn)} refuses the login: {error}; compare address and password with what is there, or "
            "make database and roles (hongbao installation prepare)"
        ) from error
    except asyncpg.TargetServerAttributeNotMatched as error:
        raise Unavailable("database_unavailable", f"no Postgres of {place(dsn)} takes writes: {error}") from error
    except asyncpg.ClientConfigurationError as error:
        raise Unavailable("database_unavailable", _told(f"the DSN of {place(dsn)} cannot be used: {error}")) from error
    except Exception as error:
        if sentence := sentence_of(error, place(dsn)):
            raise Unavailable("database_unavailable", _told(f"Postgres: {sentence}")) from error
        if isinstance(error, FileNotFoundError | PermissionError) and tls_environment(dsn):
            sentence = f"a file of TLS that the DSN of {place(dsn)} names cannot be read: {error.strerror}"
            raise Unavailable("database_unavailable", _told(sentence)) from error
        if is_lost(error):
            why = str(error) or "it is silent"  # of a timeout there is no text
            raise Unavailable("database_unavailable", f"Postgres at {place(dsn)} does not answer: {why}") from error
        raise


def _told(sentence: str) -> str:
    """Log what an operator must mend before anything connects, and return it; once in TELL_AGAIN_S for each."""
    now = time.monotonic()
    if now - _told_at.get(sentence, float("-inf")) >= TELL_AGAIN_S:
        if len(_told_at) >= MOST_TOLD:
            _told_at.clear()
        _told_at[sentence] = now
        _log.error("postgres", error=sentence)
    return sentence


def _drop(connection: Connection) -> None:
    connection.terminate()


def _tells_most(error: BaseException) -> int:
    """Say how much an error tells of a cluster: that a login is wrong, that a host is away, that it is a standby."""
    if isinstance(error, asyncpg.TargetServerAttributeNotMatched):
        return 0
    return 1 if is_lost(error) else 2


async def close(connection: Connection, deadline_s: float = 2.0) -> None:
    """Close within `deadline_s`; a connection whose server does not answer is terminated. Never raises."""
    try:
        # asyncpg's own bound does not hold while it waits for a cancelled statement to end.
        async with asyncio.timeout(deadline_s):
            await connection.close(timeout=deadline_s)
    except Exception:  # noqa: BLE001 - closing is best effort, the server cleans up
        connection.terminate()


@contextlib.asynccontextmanager
async def connected(dsn: str, **settings: str) -> AsyncIterator[Connection]:
    """Open a connection for the block and close it at the end; raises Unavailable(`database_unavailable`)."""
    connection = await connect(dsn, **settings)
    try:
        yield connection
    finally:
        await close(connection)


@contextlib.asynccontextmanager
async def asked(dsn: str, **settings: str) -> AsyncIterator[Connection]:
    """As `connected`, for reads of a moment: raises Unavailable, too, if the block has not ended after ASKED_S."""
    async with answered(place(dsn)), connected(dsn, **settings) as connection:
        yield connection


@contextlib.asynccontextmanager
async def answered(where: str) -> AsyncIterator[None]:
    """Raise Unavailable `database_unavailable` if the block, which reads a little there, takes longer than ASKED_S."""
    try:
        async with asyncio.timeout(ASKED_S):
            yield
    except TimeoutError as error:
        text = f"Postgres at {where} does not answer: it was silent for {ASKED_S:g} s"
        raise Unavailable("database_unavailable", text) from error


class Session:
    """One long-lived connection, remade after a loss; used by one task at a time.

    It is also remade after `recycle_after` uses, because a backend keeps memory for each table that it ever touched.
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
            self._connection = await connect(self._dsn, **self._settings)
            self._connection.add_log_listener(self._hear)
            self._used = 0
        self._used += 1
        return self._connection

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


def backoff_s(attempt: int, *, most_s: float = 2.0) -> float:
    """Return the pause before attempt `attempt` + 1: exponential backoff with full jitter, at most `most_s`."""
    return random.uniform(0, min(most_s, FIRST_PAUSE_S * 2 ** min(attempt, 10)))  # noqa: S311 - no secret


async def pause(attempt: int, *, most_s: float = 2.0) -> None:
    """Sleep before the next attempt (see `backoff_s`)."""
    await asyncio.sleep(backoff_s(attempt, most_s=most_s))
