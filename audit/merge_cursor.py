"""A cursor over rows in order of envelope ID, for merging several such cursors."""

from collections.abc import AsyncIterator
from typing import Any

from runtime.postgres import Connection

PREFETCH = 2_000


class MergeCursor:
    """Rows with ascending `envelope_id`; call `advance_to` with ascending IDs."""

    def __init__(self, rows: AsyncIterator[Any]) -> None:
        self._rows = rows
        self._next: Any = None
        self._started = False

    @classmethod
    def of(cls, connection: Connection, query: str, *args: Any) -> "MergeCursor":
        """Open a server-side cursor in the connection's transaction."""
        return cls(connection.cursor(query, *args, prefetch=PREFETCH).__aiter__())

    async def advance_to(self, envelope_id: int) -> tuple[list[Any], list[Any]]:
        """Return the rows of `envelope_id`, and the orphans: rows of smaller IDs that were skipped."""
        orphans: list[Any] = []
        found: list[Any] = []
        row = await self.peek()
        while row is not None and row["envelope_id"] <= envelope_id:
            (found if row["envelope_id"] == envelope_id else orphans).append(row)
            self._next = None
            row = await self.peek()
        return found, orphans

    async def rest(self) -> list[Any]:
        """Return all remaining rows."""
        rows = []
        while (row := await self.peek()) is not None:
            rows.append(row)
            self._next = None
        return rows

    async def peek(self) -> Any:
        """Return the next row without consuming it; None at the end."""
        if self._next is None:
            self._next = await anext(self._rows, None)
        return self._next
