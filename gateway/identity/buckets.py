"""Token buckets by key: each holds `count` and fills again in `seconds`.

A bucket is one number, the instant at which it is full again (GCRA, the generic cell rate algorithm of ITU-T I.371), in
whole nanoseconds, so that no rounding adds or loses anything. `keys` buckets are kept; the one that was used longest
ago is dropped first, and is full again then. That is most likely one that was full anyhow.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

NS: Final = 1_000_000_000


class Buckets:
    """`take` one out of a bucket, or learn how long until there is one."""

    def __init__(self, count: int, seconds: float, keys: int, now_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._interval_ns = max(1, round(seconds * NS / count))
        self._tolerance_ns = (count - 1) * self._interval_ns
        self._keys = keys
        self._now_ns = now_ns
        self._full_at: OrderedDict[str, int] = OrderedDict()

    def __len__(self) -> int:
        """Buckets kept."""
        return len(self._full_at)

    def wait_ns(self, key: str) -> int:
        """Return how long until one can be taken; 0 or less: now."""
        full_at = self._full_at.get(key)
        return 0 if full_at is None else full_at - self._now_ns() - self._tolerance_ns

    def take(self, key: str) -> int:
        """Take one and return 0; if there is none, take nothing and return how long until there is, ns."""
        now_ns, full_at = self._now_ns(), self._full_at.get(key)
        if full_at is None or full_at < now_ns:
            full_at = now_ns
        elif (wait_ns := full_at - now_ns - self._tolerance_ns) > 0:
            return wait_ns
        self._put(key, full_at)
        return 0

    def count(self, key: str) -> None:
        """Take one, also out of an empty bucket."""
        self._put(key, max(self._full_at.get(key, 0), self._now_ns()))

    def _put(self, key: str, full_at: int) -> None:
        buckets = self._full_at
        buckets[key] = full_at + self._interval_ns
        # The first of the dict is the one that was used longest ago.
        buckets.move_to_end(key)
        if len(buckets) > self._keys:
            buckets.popitem(last=False)
