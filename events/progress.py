"""What is delivered of what was read, in the order of the log: how far the cursor may move."""

from collections import deque
from typing import NamedTuple

from events.cursor import Cursor


class Pending:
    """An entry whose events are on their way; `left` of them are neither accepted nor put apart."""

    __slots__ = ("count", "cursor", "entries", "left")

    def __init__(self, cursor: Cursor, count: int, entries: int) -> None:
        self.cursor = cursor
        self.count = count
        self.left = count
        self.entries = entries
        """1; 0 of the end of a span (`Cursor`), which is no entry."""

    def done(self) -> None:
        """Note that one of its events is delivered."""
        self.left -= 1


class Passed(NamedTuple):
    """How much a cursor has passed; entries of which the sink wants no event count, too."""

    entries: int = 0
    events: int = 0


class Progress:
    """`cursor`: everything before it is delivered."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self._passed = Passed()
        self._open: deque[Pending] = deque()

    def __len__(self) -> int:
        """Entries that are read and not passed, ends of spans included."""
        return len(self._open)

    def begin(self, cursor: Cursor, count: int) -> Pending:
        """Take the next entry, of `count` events; `cursor` is behind it."""
        self._open.append(Pending(cursor, count, 1))
        return self._open[-1]

    def end_span(self, cursor: Cursor) -> None:
        """Take the end of a span (`Cursor`), with the cursor behind it.

        If the last thing taken was the end of a span, too, this one replaces it, because there was no entry between
        them. Else the ends of a quiet log would pile up behind an entry that is not delivered.
        """
        if self._open and not self._open[-1].entries:
            self._open[-1].cursor = cursor
        else:
            self._open.append(Pending(cursor, 0, 0))

    def advance(self) -> Cursor:
        """Move the cursor over all entries that are delivered without a gap, and return it."""
        while self._open and not self._open[0].left:
            passed = self._open.popleft()
            self.cursor = passed.cursor
            self._passed = Passed(self._passed.entries + passed.entries, self._passed.events + passed.count)
        return self.cursor

    def taken(self) -> Passed:
        """Return how much was passed since the last call."""
        passed, self._passed = self._passed, Passed()
        return passed
