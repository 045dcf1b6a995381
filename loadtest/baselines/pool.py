"""Connections of a contender: as many as it does best with, handed out first come, first served.

asyncpg's own pool sends a RESET at every release, one more round trip a claim, which would put the contender at a
disadvantage.
"""

import asyncio
from typing import Any

from loadtest.baselines.baseline import Gone
from runtime import postgres

AT_ONCE = 10
"""Connections made at the same time: each is a fork of the server's and a password check."""


class Pool:
    """`size` of the connections made are in use; the rest wait for `resize`."""

    def __init__(self, connections: list[Any]) -> None:
        self._all = connections
        self._free: asyncio.Queue[Any] = asyncio.Queue()
        self.size = 0
        self._over = False
        self.resize(len(connections))

    @classmethod
    async def connect(cls, dsn: str, size: int) -> "Pool":
        """Make `size` connections."""
        return cls(await _make(dsn, size))

    @property
    def cut_off(self) -> bool:
        """Whether the connections have been cut."""
        return all(one.is_closed() for one in self._all)

    async def renew(self, dsn: str) -> None:
        """Make as many connections in place of those that were cut."""
        self._all = await _make(dsn, len(self._all))
        self.resize(len(self._all))

    def resize(self, size: int) -> None:
        """Use this many from now on; only between two runs, when all are free."""
        self.size = min(size, len(self._all))
        self._over = False
        self._free = asyncio.Queue()
        for connection in self._all[: self.size]:
            self._free.put_nowait(connection)

    def send_home(self) -> None:
        """End the run: callers that still wait for a connection get Gone, until `resize`."""
        self._over = True

    async def take(self) -> Any:
        """Wait for a free connection; raises Gone when the run is over before there is one."""
        connection = await self._free.get()
        if self._over:
            self._free.put_nowait(connection)
            raise Gone
        return connection

    def give(self, connection: Any) -> None:
        """Give it back."""
        self._free.put_nowait(connection)

    def cut(self) -> None:
        """Cut all connections without closing them, as a crash of our process would."""
        for connection in self._all:
            connection.terminate()

    async def close(self) -> None:
        """Close all."""
        await asyncio.gather(*(one.close(timeout=5.0) for one in self._all if not one.is_closed()))


async def _make(dsn: str, size: int) -> list[Any]:
    made: list[Any] = []
    try:
        while len(made) < size:
            more = min(AT_ONCE, size - len(made))
            made += await asyncio.gather(*(postgres.connect(dsn) for _ in range(more)))
    except BaseException:
        for connection in made:
            connection.terminate()
        raise
    return made
