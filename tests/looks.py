"""Connections on which a test looks at its databases: one for each, made at the first look and closed with the test.

To make a connection costs ten times what a look costs, and tests look until something has happened.
"""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import AsyncIterator
from typing import Any

import asyncpg


class Looks:
    """Lends the connections. Two looks at one database wait for each other; a connection that was lost is made anew."""

    def __init__(self) -> None:
        self._open: dict[str, Any] = {}
        self._locks = defaultdict[str, asyncio.Lock](asyncio.Lock)

    @contextlib.asynccontextmanager
    async def at(self, dsn: str) -> AsyncIterator[Any]:
        async with self._locks[dsn]:
            if dsn not in self._open or self._open[dsn].is_closed():
                self._open[dsn] = await asyncpg.connect(dsn)
            yield self._open[dsn]

    async def close(self) -> None:
        """Close all; also those whose database is gone, or whose server."""
        for one in self._open.values():
            with contextlib.suppress(OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
                await one.close(timeout=2)
        self._open.clear()
