"""What is delivered of what was read, in the order of the log: how far the cursor may move."""

from collections import deque
from datetime import datetime

from events.cursor import Cursor


class Pending:
    """An entry whose events are on their way; `left` of them are neither accepted nor put apart."""

    __slots__ = ("count", "cursor", "left", "written_at")

    def __init__(self, cursor: Cursor, count: int, written_at: datetime | None) -> None:
        self.cursor = cursor
        self.count = count
        self.left = count
        self.written_at = written_at

    def done(self) -> None:
        """Note that one of its events is delivered."""
        self.left -= 1


class Progress:
    """`cursor`: everything before it is delivered. `events`: how many were since `taken` was called last."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self._events = 0
        self._open: deque[Pending] = deque()

    def __len__(self) -> int:
        """Entries that are read and not passed."""
        return len(self._open)

    @property
    def oldest(self) -> datetime | None:
        """When the oldest entry that is not delivered was written; None if all are."""
        return next((one.written_at for one in self._open if one.left and one.written_at is not None), None)

    def begin(self, cursor: Cursor, count: int, written_at: datetime | None = None) -> Pending:
        """Take the next entry, of `count` events; `cursor` is behind it."""
        self._open.append(Pending(cursor, count, written_at))
        return self._open[-1]

    def advance(self) -> Cursor:
        """Move the cursor over all entries that are delivered without a gap, and return it."""
        while self._open and not self._open[0].left:
            passed = self._open.popleft()
            self.cursor = passed.cursor
            self._events += passed.count
        return self.cursor

    def taken(self) -> int:
        """Return how many events were passed since the last call."""
        events, self._events = self._events, 0
        return events
