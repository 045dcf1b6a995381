"""One SET as its users see it: when it answered, how long each waited, and how long nobody was answered."""

import bisect
import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise


class Lane:
    """Times are of the loop's clock, in seconds."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.open = True
        """Whether users may begin."""
        self.waiting = 0
        """Users who have not been answered yet."""
        self._answered: list[float] = []
        self._waits: list[float] = []
        self.failed: Counter[str] = Counter()
        """Attempts that had no answer to what was asked, by code, since this was cleared."""

    def answer(self, at: float, wait_s: float) -> None:
        """Note that a user was answered, after so long."""
        self._answered.append(at)
        self._waits.append(wait_s)

    def answers_since(self, at: float) -> int:
        """Return how many were answered since."""
        return len(self._answered) - bisect.bisect_right(self._answered, at)

    def longest_silence_s(self, since: float, until: float) -> float:
        """Return the longest time in which nobody was answered."""
        times = [since, *self._between(self._answered, since, until), until]
        return max(after - before for before, after in pairwise(times))

    def p99_ms(self, since: float, until: float) -> float | None:
        """Return the wait that 99 of 100 users did not exceed, first attempt to answer; None if nobody was answered."""
        waits = sorted(self._between(self._waits, since, until))
        return 1000 * waits[math.ceil(0.99 * len(waits)) - 1] if waits else None

    def forget(self) -> None:
        """Forget all times, so that a long drill does not keep millions of them."""
        self._answered.clear()
        self._waits.clear()
        self.failed.clear()

    def _between(self, values: Sequence[float], since: float, until: float) -> Sequence[float]:
        first, last = bisect.bisect_left(self._answered, since), bisect.bisect_right(self._answered, until)
        return values[first:last]
