"""Rows that come in order of envelope, read in bounded memory and handed out envelope by envelope."""

from collections.abc import AsyncIterator
from typing import Any

PREFETCH = 2_000


class Ordered:
    """A cursor over rows with `envelope_id`, ascending. `take` must be called with ascending IDs."""

    def __init__(self, rows: AsyncIterator[Any]) -> None:
        self._rows = rows
        self._next: Any = None
        self._started = False

    @classmethod
    def of(cls, connection: Any, query: str, *args: Any) -> "Ordered":
        """Open a server-side cursor inside the connection's transaction."""
        return cls(connection.cursor(query, *args, prefetch=PREFETCH).__aiter__())

    async def take(self, envelope_id: int) -> tuple[list[Any], list[Any]]:
        """Return the rows of `envelope_id`, and before them the orphans: rows of smaller IDs nobody asked for."""
        orphans: list[Any] = []
        found: list[Any] = []
        row = await self.peek()
        while row is not None and row["envelope_id"] <= envelope_id:
            (found if row["envelope_id"] == envelope_id else orphans).append(row)
            self._next = None
            row = await self.peek()
        return found, orphans

    async def rest(self) -> list[Any]:
        """Return everything that is left."""
        rows = []
        while (row := await self.peek()) is not None:
            rows.append(row)
            self._next = None
        return rows

    async def peek(self) -> Any:
        """Return the next row without taking it; None at the end."""
        if self._next is None:
            self._next = await anext(self._rows, None)
        return self._next
