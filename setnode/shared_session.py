"""The connection on which creates and periodic services read, one at a time."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from errors import Unavailable
from runtime.postgres import Session
from setnode.limits import LOAD_DEADLINE_S

T = TypeVar("T")


class SharedSession:
    """A session used by several tasks in turn, for reads."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._turn = asyncio.Lock()

    async def run(self, work: Callable[[Any], Coroutine[Any, Any, T]]) -> T:
        """Await `work(connection)`: LOAD_DEADLINE_S at most for its turn, and again for its end; raises Unavailable."""
        try:
            async with asyncio.timeout(LOAD_DEADLINE_S):
                await self._turn.acquire()
        except TimeoutError:
            raise Unavailable("database_unavailable", "too many wait for the database; try again shortly") from None
        try:
            return await self._session.run(work, LOAD_DEADLINE_S)
        finally:
            self._turn.release()
