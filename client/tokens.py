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
        """Raises TypeError or ValueError for what is no token, as `header` and `renew` do for what a function gave."""
        if not isinstance(source, str) and not callable(source):
            raise TypeError(f"a user's token is a text, or a function that returns one, not {type(source).__name__}")
        self._source = source
        self._header: str | None = _header(source) if isinstance(source, str) else None
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
                self._header = _header(await given if inspect.isawaitable(given) else given)
            return self._header


def _header(token: object) -> str:
    """Return the header; a token that was read from a file may end with a line break. No error shows the token."""
    if not isinstance(token, str):
        raise TypeError(f"the function for a user's token returned {type(token).__name__}; it must return a text")
    token = token.strip()
    if token.lower().startswith("bearer "):
        raise ValueError('a token begins with "Bearer ": give the token alone, the client writes that word before it')
    if not (token.isascii() and token.isprintable()):
        raise ValueError("a token is printable ASCII, in one line: this is none")
    return f"Bearer {token}"
