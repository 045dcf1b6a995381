"""The claims of an envelope as JSON: each row is encoded once, and only new rows are added.

The rows are nearly all of a large detail, the same for all viewers, and never change. So they are kept encoded, and a
page of them is a slice.
"""

from array import array

import msgspec

from envelope.claim_log import ClaimLog
from setnode.limits import CLAIMS_PAGE
from setnode.views.timestamps import rfc3339


class ClaimRow(msgspec.Struct, gc=False):
    """One row of a detail."""

    seq: int
    user: str
    amount_fen: int
    claimed_at: str


class ClaimsPage(msgspec.Struct, frozen=True, gc=False):
    """Which claims of a detail are asked for: at most `limit` from seq `first` on.

    `known` are versions of this page that the caller has; "*" stands for any (`envelope_json.version_of`).
    `live`: in place of the detail a watcher's frame is asked for (`setnode.views.live_json`).
    """

    first: int = 0
    limit: int = CLAIMS_PAGE
    live: bool = False
    known: tuple[str, ...] = ()


FIRST_PAGE = ClaimsPage()
LIVE_PAGE = ClaimsPage(live=True)
_encode = msgspec.json.Encoder().encode


class ClaimsJson:
    """The committed opens of one log, encoded; `best` is the row of best luck so far.

    It belongs to the log's actor and is dropped with the log. It holds about 95 bytes a claim.
    """

    __slots__ = ("_ends", "_rows", "best", "claimed_fen", "log")

    def __init__(self, log: ClaimLog) -> None:
        self.log = log
        self.claimed_fen = 0
        self.best: ClaimRow | None = None
        self._rows = b""
        """The rows, each followed by a comma."""
        self._ends = array("I")
        """Where each row ends in `_rows`, its comma included."""

    @property
    def count(self) -> int:
        """How many claims there are."""
        return len(self._ends)

    def page(self, asked: ClaimsPage) -> tuple[msgspec.Raw, int | None]:
        """Return the JSON array of a page, and the first seq of the page after it; None if there is none."""
        ends = self._ends
        first, last = min(asked.first, len(ends)), min(asked.first + asked.limit, len(ends))
        if first == last:
            return msgspec.Raw(b"[]"), None
        begin = ends[first - 1] if first else 0
        rows = memoryview(self._rows)[begin : ends[last - 1] - 1]
        return msgspec.Raw(b"".join((b"[", rows, b"]"))), (last if last < len(ends) else None)

    def catch_up(self) -> None:
        """Add the claims that were committed since the last call."""
        rows = claim_rows(self.log, self.count)
        if not rows:
            return
        self.claimed_fen += sum(row.amount_fen for row in rows)
        # max() keeps the first of equals: in a tie the earlier open has best luck.
        self.best = max(rows if self.best is None else [self.best, *rows], key=_amount_fen)
        end, parts = len(self._rows), [self._rows]
        for row in rows:
            encoded = _encode(row)
            end += len(encoded) + 1
            self._ends.append(end)
            parts += (encoded, b",")
        self._rows = b"".join(parts)


def claim_rows(log: ClaimLog, first: int) -> list[ClaimRow]:
    """Return the committed claims of a log from seq `first` on."""
    return [
        ClaimRow(seq, user, amount_fen, rfc3339(at_ms))
        for seq, (user, amount_fen, at_ms) in enumerate(log.claims(after=first), first)
    ]


def _amount_fen(row: ClaimRow) -> int:
    return row.amount_fen
