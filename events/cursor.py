"""How far a sink has come in one SET's log."""

from typing import NamedTuple


class Cursor(NamedTuple):
    """How far a sink has come: between which two snapshots of Postgres it is, and how far between them.

    A log has no numbers in the order of commits, so it is read in spans. A span is what was committed between two
    snapshots, in the order of (transaction, entry). It begins with `seen`, before which all is delivered, and ends with
    `upto`, which was the present when the reader began it; (`after_xid`, `after_entry`) is the last entry of it that is
    delivered. Once all of it is delivered, both snapshots are its end, and the next span begins there.

    Snapshots are texts, as Postgres writes them.
    """

    seen: str
    upto: str
    after_xid: str = "0"
    after_entry: int = 0

    @property
    def whole(self) -> "Cursor":
        """The cursor once the span up to `upto` is delivered whole."""
        return Cursor(self.upto, self.upto)

    @property
    def span_begun(self) -> bool:
        """Whether a span is delivered in part."""
        return self.seen != self.upto
