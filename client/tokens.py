"""A user's bearer token: a text, or a function that gives one and is asked again once it has expired."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Final

TokenSource = str | Callable[[], str] | Callable[[], Awaitable[str]]
"""How a user's token is had. Make one for the user in your service: the client never sees your key."""


class Bearer:
    """The header `Authorization` of one user."""

    def __init__(self, source: TokenSource) -> None:
        self._source = source
        self._header: str | None = f"Bearer {source}" if isinstance(source, str) else None
        self._asking = asyncio.Lock()
        self.renewable: Final = not isinstance(source, str)

    async def header(self) -> str:
        """Return its value; the first time the function is asked."""
        return self._header or await self._ask(None)

    async def renew(self, rejected: str) -> str:
        """Return a header that is not `rejected`, as far as the function gives another."""
        return await self._ask(rejected)

    async def _ask(self, rejected: str | None) -> str:
        async with self._asking:
            # Calls that were rejected at the same time ask once.
            if self._header is None or self._header == rejected:
                source = self._source
                given = source if isinstance(source, str) else source()
                self._header = f"Bearer {await given if inspect.isawaitable(given) else given}"
            return self._header
