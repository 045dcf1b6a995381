"""Counts of requests by operation and status, the number in flight, and a sampled histogram of their time."""

import time

from gateway.limits import SAMPLE_EVERY
from runtime import metrics

_requests = metrics.counter("hongbao_http_requests_total", "Requests answered", ("route", "status"))
_seconds = metrics.seconds("hongbao_http_seconds", f"Time to answer, of one request in {SAMPLE_EVERY}")
_in_flight = metrics.gauge("hongbao_http_in_flight", "Requests being answered")


class RequestMetrics:
    """Counts in a dict, and hands the counts to Prometheus in `publish`, which must be called regularly."""

    def __init__(self) -> None:
        self.in_flight = 0
        # A plain dict is faster than collections.Counter.
        self._counts: dict[tuple[str, int], int] = {}

    def begin(self, number: int) -> float:
        """Count in the request of this number in this process; return its start (s) if it is to be timed, else 0."""
        self.in_flight += 1
        return 0.0 if number % SAMPLE_EVERY else time.perf_counter()

    def end(self, operation: str, status: int, started: float) -> None:
        """Count it out; `started` is what `begin` returned."""
        self.in_flight -= 1
        counts, kind = self._counts, (operation, status)
        counts[kind] = counts.get(kind, 0) + 1
        if started:
            _seconds.observe(time.perf_counter() - started)

    async def publish(self) -> None:
        """Add the counts since the last call to the Prometheus metrics."""
        counts, self._counts = self._counts, {}
        for (operation, status), number in counts.items():
            _requests.labels(operation, str(status)).inc(number)
        _in_flight.set(self.in_flight)
