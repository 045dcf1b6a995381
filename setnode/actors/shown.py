"""The claims of an envelope as everybody is shown them: encoded once, and only what is new is added.

A detail of 10,000 shares took 50 ms of the event loop each time, nearly all of it these rows. They are the same for all
viewers and never change, so they are kept as JSON and put into the detail as they are.
"""

from functools import lru_cache

import msgspec

from envelope.claim_log import ClaimLog
from runtime.clock import from_ms

KEEP_FROM = 100
"""Claims from which the rows are kept; below it building them costs less than 0.2 ms and no memory."""


class Claim(msgspec.Struct, gc=False):
    """One row of a detail."""

    seq: int
    user: str
    amount_fen: int
    claimed_at: str


_encode = msgspec.json.Encoder().encode


class ShownClaims:
    """The committed opens of one log. `rows` is their JSON array, `best` the row of best luck so far.

    About 90 bytes a claim; it belongs to the log's actor and goes with it.
    """

    __slots__ = ("best", "claimed_fen", "count", "log", "rows")

    def __init__(self, log: ClaimLog) -> None:
        self.log = log
        self.count = 0
        self.claimed_fen = 0
        self.best: Claim | None = None
        self.rows = msgspec.Raw(b"[]")

    def catch_up(self) -> None:
        """Add what was committed since the last time."""
        added = self.log.claims(after=self.count)
        if not added:
            return
        rows = [
            Claim(seq, user, amount_fen, instant(at_ms))
            for seq, (user, amount_fen, at_ms) in enumerate(added, self.count)
        ]
        self.claimed_fen += sum(row.amount_fen for row in rows)
        # max() keeps the first of equals: a tie goes to whoever opened first.
        self.best = max(rows if self.best is None else [self.best, *rows], key=_amount)
        new = _encode(rows)
        if self.count:
            new = b"".join((memoryview(self.rows)[:-1], b",", memoryview(new)[1:]))
        self.rows = msgspec.Raw(new)
        self.count += len(rows)


def instant(milliseconds: int) -> str:
    """Write an instant as RFC 3339 in UTC with milliseconds."""
    second, rest = divmod(milliseconds, 1000)
    return f"{_second(second)}.{rest:03d}Z"


@lru_cache(maxsize=1_024)
def _second(second: int) -> str:
    """Return an instant without its milliseconds: in a crowd hundreds share the second."""
    return from_ms(second * 1000).strftime("%Y-%m-%dT%H:%M:%S")


def _amount(row: Claim) -> int:
    return row.amount_fen
