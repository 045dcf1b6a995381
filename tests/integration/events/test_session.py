"""The connection that holds a SET for one process of events."""

import asyncio

import pytest

from errors import Unavailable
from events.set_session import SetSession
from runtime.postgres import Connection
from tests.integration.events.fixtures import events_dsn, operator
from tests.integration.setnode.fixtures import Town, town

__all__ = ["town"]


async def _pid(connection: Connection) -> int:
    pid: int = await connection.fetchval("SELECT pg_backend_pid()")
    return pid


async def test_a_session_never_goes_on_without_its_lock(town: Town) -> None:
    """A connection that ended between two statements is lost: a new one would not hold the SET."""
    session = SetSession(events_dsn(town))
    assert await session.lock()
    pid = await session.run(_pid)
    async with operator(town) as connection:
        await connection.execute("SELECT pg_terminate_backend($1)", pid)
    async with asyncio.timeout(60):
        while session._session.up:
            await asyncio.sleep(0.01)
    for _ in range(2):
        with pytest.raises(Unavailable, match="held the SET"):
            await session.run(_pid)
    await session.close()


async def test_a_session_is_one_connection_however_long_it_serves(town: Town) -> None:
    """It is not opened anew after many statements, as other connections are: the lock would go with it."""
    session, other = SetSession(events_dsn(town)), SetSession(events_dsn(town))
    assert await session.lock()
    pid = await session.run(_pid)
    session._session._used = 10**9
    assert await session.run(_pid) == pid
    assert not await other.lock()
    await session.close()
    await other.close()
