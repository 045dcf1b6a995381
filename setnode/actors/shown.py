"""The claims of an envelope as everybody is shown them: encoded once, and only what is new is added.

A detail of 10,000 shares took 50 ms of the event loop each time, nearly all of it these rows. They are the same for all
viewers and never change, so they are kept as msgpack and put into the frame as they are.
"""

from functools import lru_cache

import msgspec

from envelope.claim_log import ClaimLog
from runtime.clock import from_ms

KEEP_FROM = 100
"""Claims from which the rows are kept; below it building them costs less than 0.2 ms and no memory."""

_ARRAY_32 = b"\xdd"
_HEADER_BYTES = 5


class Claim(msgspec.Struct, gc=False):
    """One row of a detail."""

    seq: int
    user: str
    amount_fen: int
    claimed_at: str


_encode = msgspec.msgpack.Encoder().encode


class ShownClaims:
    """The committed opens of one log. `rows` is their msgpack array, `best` the row of best luck so far.

    About 75 bytes a claim; it belongs to the log's actor and goes with it.
    """

    __slots__ = ("best", "claimed_fen", "count", "log", "rows")

    def __init__(self, log: ClaimLog) -> None:
        self.log = log
        self.count = 0
        self.claimed_fen = 0
        self.best: Claim | None = None
        self.rows = msgspec.Raw(_header(0))

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
        self.count += len(rows)
        new = memoryview(_encode(rows))[_header_bytes(len(rows)) :]
        self.rows = msgspec.Raw(b"".join((_header(self.count), memoryview(self.rows)[_HEADER_BYTES:], new)))


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


def _header_bytes(count: int) -> int:
    """Return how long the head is that the encoder gives an array (the shortest that holds the count)."""
    return 1 if count < 16 else 3 if count < 65_536 else _HEADER_BYTES  # noqa: PLR2004 - msgpack's own bounds


def _header(count: int) -> bytes:
    """Return the head of a msgpack array; always the long form, so that its size does not depend on the count."""
    return _ARRAY_32 + count.to_bytes(4, "big")
