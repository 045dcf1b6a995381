"""Counts of requests by route and status, how many are in flight, and a sampled histogram of their time."""

import time
from collections import Counter

from gateway.limits import SAMPLE_EVERY
from runtime import metrics

_requests = metrics.counter("hongbao_http_requests_total", "Requests answered", ("route", "status"))
_seconds = metrics.seconds("hongbao_http_seconds", f"Time to answer, of one request in {SAMPLE_EVERY}")
_in_flight = metrics.gauge("hongbao_http_in_flight", "Requests being answered")


class Traffic:
    """Counts in a dict and hands over to Prometheus in `publish`, once in a while."""

    def __init__(self) -> None:
        self.in_flight = 0
        self._counts: Counter[tuple[str, int]] = Counter()
        self._turn = 0

    def arrive(self) -> float:
        """Count a request in; returns its start if it is to be timed, else 0."""
        self.in_flight += 1
        self._turn += 1
        return time.perf_counter() if self._turn % SAMPLE_EVERY == 0 else 0.0

    def leave(self, route: str, status: int, started: float) -> None:
        """Count it out."""
        self.in_flight -= 1
        self._counts[route, status] += 1
        if started:
            _seconds.observe(time.perf_counter() - started)

    async def publish(self) -> None:
        """Hand the counts over."""
        counts, self._counts = self._counts, Counter()
        for (route, status), number in counts.items():
            _requests.labels(route, str(status)).inc(number)
        _in_flight.set(self.in_flight)
