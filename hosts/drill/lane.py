"""One SET as its users see it: when it answered, how long each waited, and how long nobody was answered."""

import bisect
import math
from collections import Counter
from itertools import pairwise


class Lane:
    """Times are of the loop's clock, in seconds."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.open = True
        """Whether users may begin."""
        self.waiting = 0
        """Users who have not been answered yet."""
        self._won: list[float] = []
        """When a share was won: such an answer needs a commit, others may come from a server's memory."""
        self._answered: list[float] = []
        self._waits: list[float] = []
        self.failed: Counter[str] = Counter()
        """Attempts that had no answer to what was asked, by code, since this was cleared."""

    def answer(self, at: float, wait_s: float, *, won: bool) -> None:
        """Note that a user was answered, after so long."""
        if won:
            self._won.append(at)
        self._answered.append(at)
        self._waits.append(wait_s)

    def wins_since(self, at: float) -> int:
        """Return how many have won since."""
        return len(self._won) - bisect.bisect_right(self._won, at)

    def longest_silence_s(self, since: float, until: float) -> float:
        """Return the longest time, s, in which no user won a share."""
        first, last = bisect.bisect_left(self._won, since), bisect.bisect_right(self._won, until)
        times = [since, *self._won[first:last], until]
        return max(after - before for before, after in pairwise(times))

    def p99_ms(self, since: float, until: float) -> float | None:
        """Return the wait that 99 of 100 users did not exceed, first attempt to answer; None if nobody was answered."""
        first, last = bisect.bisect_left(self._answered, since), bisect.bisect_right(self._answered, until)
        waits = sorted(self._waits[first:last])
        return 1000 * waits[math.ceil(0.99 * len(waits)) - 1] if waits else None

    def forget(self) -> None:
        """Forget all times, so that a long drill does not keep millions of them."""
        self._won.clear()
        self._answered.clear()
        self._waits.clear()
        self.failed.clear()
