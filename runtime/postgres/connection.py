"""Connections: opened at the host that answers and fits, and closed within a deadline."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

import asyncpg

from errors import Unavailable
from runtime import logs
from runtime.dsn import each, place, tls_environment, wanted
from runtime.postgres import scram_only
from runtime.postgres.errors import Connection, is_lost
from runtime.postgres.keepalive import notice_a_host_that_is_gone
from runtime.postgres.race import first_of
from runtime.tls_errors import sentence_of

CONNECT_S = 5.0
"""A connection is made in milliseconds; after this long the server counts as away."""
ASKED_S = 15.0
"""What a command reads takes a second at most; a Postgres that is frozen never answers, and keeps its connections."""
NEXT_HOST_S = 0.3
"""A host of a cluster that has not answered for so long may be gone: the next one is tried beside it."""

TELL_AGAIN_S = 60.0
MOST_TOLD = 100
"""How often a process says in its log that a server's certificate is not accepted, and of how many servers."""

_log = logs.get("postgres")
_told_at: dict[str, float] = {}
scram_only.install()


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
