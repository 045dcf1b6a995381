"""Latencies in buckets that grow by 2 %: any number of values in a few kilobytes, merged by adding.

A percentile read from it is wrong by at most 1 % of its value (`ERROR`), the maximum is exact. HdrHistogram promises
the same; its Python binding takes several times the CPU (docs/performance/notebook.md), beside the server that is being
measured.
"""

import math
from collections.abc import Iterable
from typing import Final

import msgspec

LEAST_MS: Final = 0.01
"""All shorter latencies are in the first bucket."""
MOST_MS: Final = 600_000.0
"""All longer ones are in the last bucket: clients give up far earlier than after ten minutes."""
_PER_E: Final = 50.0
ERROR: Final = math.expm1(0.5 / _PER_E)
"""Half a bucket, as a share of the value."""
_LAST: Final = int(math.log(MOST_MS / LEAST_MS) * _PER_E)
_log = math.log


class Histogram(msgspec.Struct):
    """Counts by bucket; bucket `n` begins at LEAST_MS * e^(n/50)."""

    counts: dict[int, int] = msgspec.field(default_factory=dict)
    total: int = 0
    max_ms: float = 0.0

    def record(self, ms: float) -> None:
        """Count one latency."""
        bucket = 0 if ms <= LEAST_MS else min(int(_log(ms / LEAST_MS) * _PER_E), _LAST)
        self.counts[bucket] = self.counts.get(bucket, 0) + 1
        self.total += 1
        if ms > self.max_ms:  # noqa: PLR1730 - cheaper than max(), once a request
            self.max_ms = ms

    def add(self, other: "Histogram") -> None:
        """Count everything that another one has counted."""
        for bucket, count in other.counts.items():
            self.counts[bucket] = self.counts.get(bucket, 0) + count
        self.total += other.total
        self.max_ms = max(self.max_ms, other.max_ms)

    def percentile(self, percent: float) -> float:
        """Return the value in ms that `percent` of all do not exceed, within ERROR; 0 when there is none."""
        rank = math.ceil(self.total * percent / 100)
        seen = 0
        for bucket in sorted(self.counts):
            seen += self.counts[bucket]
            if seen >= rank:
                return min(LEAST_MS * math.exp((bucket + 0.5) / _PER_E), self.max_ms)
        return 0.0


def merged(several: Iterable[Histogram]) -> Histogram:
    """Return the sum of several histograms."""
    whole = Histogram()
    for one in several:
        whole.add(one)
    return whole
