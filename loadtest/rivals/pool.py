"""Connections of a contender: as many as it does best with, handed out first come, first served.

asyncpg's own pool sends a RESET at every release: a round trip more per claim, which no contender shall pay.
"""

import asyncio
from typing import Any

from runtime import postgres

AT_ONCE = 10
"""Connections made at the same time: each is a fork of the server's and a password check."""


class Pool:
    """`size` of the connections made are in use; the rest wait for `resize`."""

    def __init__(self, connections: list[Any]) -> None:
        self._all = connections
        self._free: asyncio.Queue[Any] = asyncio.Queue()
        self.size = 0
        self.resize(len(connections))

    @classmethod
    async def connect(cls, dsn: str, size: int) -> "Pool":
        """Make `size` connections."""
        made: list[Any] = []
        try:
            while len(made) < size:
                more = min(AT_ONCE, size - len(made))
                made += await asyncio.gather(*(postgres.connect(dsn) for _ in range(more)))
        except BaseException:
            for connection in made:
                connection.terminate()
            raise
        return cls(made)

    def resize(self, size: int) -> None:
        """Use this many from now on; only between two runs, when all are free."""
        self.size = min(size, len(self._all))
        self._free = asyncio.Queue()
        for connection in self._all[: self.size]:
            self._free.put_nowait(connection)

    async def take(self) -> Any:
        """Wait for a free connection."""
        return await self._free.get()

    def give(self, connection: Any) -> None:
        """Give it back."""
        self._free.put_nowait(connection)

    def cut(self) -> None:
        """Cut all connections without a word, as the death of our process would."""
        for connection in self._all:
            connection.terminate()

    async def close(self) -> None:
        """Close all."""
        await asyncio.gather(*(one.close(timeout=5.0) for one in self._all if not one.is_closed()))
