"""Counts of requests by operation and status, the number in flight, and histograms of their time by operation.

While fewer than TIMED_PER_S requests come in a second every one is timed: on a quiet system a single slow request is
seen. In a crowd one in SAMPLE_EVERY is, as many of each operation as come: the shape of the histogram stays true, and
its count is not that of the requests, which `hongbao_http_requests_total` has. A time is noted in a list and put into
its histogram later: an `observe` takes longer than the rest of this module.
"""

import time
from typing import Final

from gateway.limits import SAMPLE_EVERY, TIMED_PER_S
from runtime import metrics

_requests = metrics.counter("hongbao_http_requests_total", "Requests answered", ("route", "status"))
_seconds = metrics.seconds(
    "hongbao_http_seconds",
    f"Time to answer; of one request in {SAMPLE_EVERY} while more than {TIMED_PER_S} come in a second, else of all",
    ("operation",),
)
_in_flight = metrics.gauge("hongbao_http_in_flight", "Requests being answered")
_ALL: Final = 1


class RequestMetrics:
    """Counts in a dict, and hands the counts to Prometheus in `publish`, which must be called regularly."""

    def __init__(self) -> None:
        self.in_flight = 0
        # A plain dict is faster than collections.Counter.
        self._counts: dict[tuple[str, int], int] = {}
        self._timed: list[tuple[str, float]] = []
        self._every = _ALL
        """One request of so many is timed."""
        self._published_at = time.perf_counter()

    def begin(self) -> float:
        """Count a request in; return its start (s)."""
        self.in_flight += 1
        return time.perf_counter()

    def end(self, operation: str, status: int, started: float, number: int) -> None:
        """Count it out; `started` is what `begin` returned, `number` that of the request in this process."""
        self.in_flight -= 1
        counts, kind = self._counts, (operation, status)
        counts[kind] = counts.get(kind, 0) + 1
        if not number % self._every:
            timed = self._timed
            timed.append((operation, time.perf_counter() - started))
            if len(timed) == TIMED_PER_S:
                self._every = SAMPLE_EVERY

    async def publish(self) -> None:
        """Add the counts and times since the last call to the Prometheus metrics."""
        counts, self._counts = self._counts, {}
        for (operation, status), number in counts.items():
            _requests.labels(operation, str(status)).inc(number)
        timed, self._timed = self._timed, []
        for operation, seconds in timed:
            _seconds.labels(operation).observe(seconds)
        _in_flight.set(self.in_flight)
        now, before = time.perf_counter(), self._published_at
        self._published_at = now
        quiet = sum(counts.values()) < TIMED_PER_S * (now - before)
        self._every = _ALL if quiet else SAMPLE_EVERY
