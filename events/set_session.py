"""The one connection on which a SET's events are read, delivered and accounted for.

It holds an advisory lock: of several events processes one serves a SET, and another takes over when the connection
ends. A cursor is written on this connection alone, so a process that has lost the lock cannot move it.
"""

import asyncio
import sys
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
        # Not recycled after some uses: the lock would go with the connection.
        self._session = postgres.Session(dsn, recycle_after=sys.maxsize)
        self._turn = asyncio.Lock()
        self._locked = False
        self._lost = False

    async def lock(self) -> bool:
        """Take the SET for this process; False if another one has it."""
        self._locked = bool(await self.run(lambda connection: connection.fetchval(_LOCK)))
        return self._locked

    async def hear(self, channel: str, told: Callable[[str], None]) -> None:
        """Have `told` called with each notification of a channel, until the connection ends."""
        await self.run(lambda connection: connection.add_listener(channel, lambda *heard: told(str(heard[-1]))))

    async def run(self, work: Callable[[Connection], Coroutine[Any, Any, T]]) -> T:
        """Await `work(connection)`, one at a time; raises Unavailable if the connection is lost, now or before.

        A caller that is cancelled leaves the statement to end by itself: the connection is not given up for it.
        """
        task = asyncio.create_task(self._run(work))
        task.add_done_callback(_retrieve)
        return await asyncio.shield(task)

    async def _run(self, work: Callable[[Connection], Coroutine[Any, Any, T]]) -> T:
        async with self._turn:
            # A connection that ended between two statements would be opened anew, without the lock.
            self._lost = self._lost or (self._locked and not self._session.up)
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
