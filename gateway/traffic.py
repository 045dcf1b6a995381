"""Counts of requests by route and status, how many are in flight, and a sampled histogram of their time."""

import time

from gateway.limits import SAMPLE_EVERY
from runtime import metrics

_requests = metrics.counter("hongbao_http_requests_total", "Requests answered", ("route", "status"))
_seconds = metrics.seconds("hongbao_http_seconds", f"Time to answer, of one request in {SAMPLE_EVERY}")
_in_flight = metrics.gauge("hongbao_http_in_flight", "Requests being answered")


class Traffic:
    """Counts in a dict and hands over to Prometheus in `publish`, once in a while."""

    def __init__(self) -> None:
        self.in_flight = 0
        # No Counter: it overrides a part of dict's writing in Python, and all of it goes the slow way.
        self._counts: dict[tuple[str, int], int] = {}

    def arrive(self, number: int) -> float:
        """Count the request of this number in; returns its start if it is to be timed, else 0."""
        self.in_flight += 1
        return 0.0 if number % SAMPLE_EVERY else time.perf_counter()

    def leave(self, route: str, status: int, started: float) -> None:
        """Count it out."""
        self.in_flight -= 1
        counts, kind = self._counts, (route, status)
        counts[kind] = counts.get(kind, 0) + 1
        if started:
            _seconds.observe(time.perf_counter() - started)

    async def publish(self) -> None:
        """Hand the counts over."""
        counts, self._counts = self._counts, {}
        for (route, status), number in counts.items():
            _requests.labels(route, str(status)).inc(number)
        _in_flight.set(self.in_flight)
