"""The one connection on which a SET's events are read, delivered and accounted for.

It holds an advisory lock: of several events processes one serves a SET, and another takes over when the connection
ends. A cursor is written on this connection alone, so a process that has lost the lock cannot move it.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from errors import Unavailable
from events.limits import DATABASE_S
from runtime import postgres
from runtime.postgres import Connection

_LOCK = "SELECT pg_try_advisory_lock(hashtext('hongbao_events'))"

T = TypeVar("T")


class SetSession:
    """After the first loss it stays lost: the lock went with the connection, and a new session has to take it."""

    def __init__(self, dsn: str) -> None:
        self._session = postgres.Session(dsn)
        self._turn = asyncio.Lock()
        self._lost = False

    async def lock(self) -> bool:
        """Take the SET for this process; False if another one has it."""
        return bool(await self.run(lambda connection: connection.fetchval(_LOCK)))

    async def run(self, work: Callable[[Connection], Coroutine[Any, Any, T]]) -> T:
        """Await `work(connection)`, one at a time; raises Unavailable if the connection is lost, now or before.

        A caller that is cancelled leaves the statement to end by itself: the connection is not given up for it.
        """
        task = asyncio.create_task(self._run(work))
        task.add_done_callback(_retrieve)
        return await asyncio.shield(task)

    async def _run(self, work: Callable[[Connection], Coroutine[Any, Any, T]]) -> T:
        async with self._turn:
            if self._lost:
                raise Unavailable("database_unavailable", "the connection that held the SET is lost")
            try:
                return await self._session.run(work, DATABASE_S)
            except Unavailable:
                self._lost = True
                raise

    async def close(self) -> None:
        """Close the connection, and with it the lock."""
        self._lost = True
        await self._session.close()


def _retrieve(task: "asyncio.Task[Any]") -> None:
    """Mark the error of a statement whose caller was cancelled as retrieved."""
    if not task.cancelled():
        task.exception()
