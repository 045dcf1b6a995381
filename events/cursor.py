"""How far a sink has come in one SET's log."""

from typing import NamedTuple


class Cursor(NamedTuple):
    """All entries of transactions visible in `seen` are delivered; those are Postgres' snapshots, as text.

    Of the entries that became visible between `seen` and `upto`, in the order of (transaction, entry), those up to
    (`after_xid`, `after_entry`) are delivered, too. `upto` "" stands for the present: a new span begins.
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
