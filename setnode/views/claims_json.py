"""The claims of an envelope as JSON: each row is encoded once, and only new rows are added.

The rows are nearly all of a large detail, the same for all viewers, and never change. So they are kept encoded and put
into the detail as they are.
"""

import msgspec

from envelope.claim_log import ClaimLog
from setnode.views.timestamps import rfc3339


class ClaimRow(msgspec.Struct, gc=False):
    """One row of a detail."""

    seq: int
    user: str
    amount_fen: int
    claimed_at: str


_encode = msgspec.json.Encoder().encode


class ClaimsJson:
    """The committed opens of one log. `rows` is their JSON array, `best` the row of best luck so far.

    It belongs to the log's actor and is dropped with the log. It holds about 90 bytes a claim.
    """

    __slots__ = ("best", "claimed_fen", "count", "log", "rows")

    def __init__(self, log: ClaimLog) -> None:
        self.log = log
        self.count = 0
        self.claimed_fen = 0
        self.best: ClaimRow | None = None
        self.rows = msgspec.Raw(b"[]")

    def catch_up(self) -> None:
        """Add the claims that were committed since the last call."""
        added = self.log.claims(after=self.count)
        if not added:
            return
        rows = [
            ClaimRow(seq, user, amount_fen, rfc3339(at_ms))
            for seq, (user, amount_fen, at_ms) in enumerate(added, self.count)
        ]
        self.claimed_fen += sum(row.amount_fen for row in rows)
        # max() keeps the first of equals: in a tie the earlier open has best luck.
        self.best = max(rows if self.best is None else [self.best, *rows], key=_amount_fen)
        new = _encode(rows)
        if self.count:
            new = b"".join((memoryview(self.rows)[:-1], b",", memoryview(new)[1:]))
        self.rows = msgspec.Raw(new)
        self.count += len(rows)


def _amount_fen(row: ClaimRow) -> int:
    return row.amount_fen
