"""What is opened: one hot envelope after another, or many at once."""

from collections.abc import Sequence
from dataclasses import dataclass

HOT_SHARES = 10_000
"""The most that an envelope can have."""
FEN_PER_SHARE = 100


@dataclass(frozen=True)
class Workload:
    """`waiting` opens are in flight all the time, each by a user of its own, for at most `seconds`."""

    key: str
    title: str
    envelopes: int
    shares: int
    waiting: int
    seconds: float
    hot: bool

    @property
    def total_fen(self) -> int:
        """What each envelope holds."""
        return self.shares * FEN_PER_SHARE

    def asks(self, envelopes: Sequence[int]) -> Sequence[tuple[int, str]]:
        """Return (envelope, user) of every open: a hot envelope to its end before the next, many in turn.

        Made before the turn, so that the turn's time is the contender's.
        """
        if self.hot:
            return [(one, f"user-{number}") for one in envelopes for number in range(self.shares)]
        return [(one, f"user-{number}") for number in range(self.shares) for one in envelopes]


def hot(waiting: int, *, envelopes: int, seconds: float) -> Workload:
    """One hot envelope at a time."""
    return Workload(f"hot{waiting}", f"one hot, {waiting:,} waiting", envelopes, HOT_SHARES, waiting, seconds, hot=True)


def many(key: str, envelopes: int, shares: int, *, waiting: int, seconds: float) -> Workload:
    """Many small groups at the same time."""
    return Workload(key, f"{envelopes:,} x {shares}", envelopes, shares, waiting, seconds, hot=False)
