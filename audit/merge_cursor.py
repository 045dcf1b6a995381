"""A cursor over rows in order of envelope ID, for merging several such cursors."""

from collections.abc import AsyncIterator, Callable
from typing import Any

from runtime.postgres import Connection

PREFETCH = 2_000


class MergeCursor:
    """Rows with ascending `envelope_id`; call `advance_to` with ascending IDs.

    `orphan` is called with each row that belongs to none of these IDs: such rows are not collected, because of a SET
    that has lost its envelopes every row is one.
    """

    def __init__(self, rows: AsyncIterator[Any], orphan: Callable[[Any], None] = lambda _: None) -> None:
        self._rows = rows
        self._orphan = orphan
        self._next: Any = None

    @classmethod
    def of(cls, connection: Connection, query: str, *args: Any, orphan: Callable[[Any], None]) -> "MergeCursor":
        """Open a server-side cursor in the connection's transaction."""
        return cls(connection.cursor(query, *args, prefetch=PREFETCH).__aiter__(), orphan)

    async def advance_to(self, envelope_id: int) -> list[Any]:
        """Return the rows of `envelope_id`; those of smaller IDs that were skipped are orphans."""
        found: list[Any] = []
        row = await self._peek()
        while row is not None and row["envelope_id"] <= envelope_id:
            if row["envelope_id"] == envelope_id:
                found.append(row)
            else:
                self._orphan(row)
            self._next = None
            row = await self._peek()
        return found

    async def finish(self) -> None:
        """Read to the end: all remaining rows are orphans."""
        while (row := await self._peek()) is not None:
            self._orphan(row)
            self._next = None

    async def _peek(self) -> Any:
        """Return the next row without consuming it; None at the end."""
        if self._next is None:
            # Not `anext(rows, None)`: with a default, Python 3.11 crashes where the driver refuses a connection that is
            # lost before there is anything to await.
            try:
                self._next = await anext(self._rows)
            except StopAsyncIteration:
                return None
        return self._next
