"""Times by operation: every request of a quiet system, a sample of a crowd's, and none of them twice."""

import pytest

from gateway import request_metrics as module
from gateway.limits import SAMPLE_EVERY, TIMED_PER_S
from gateway.request_metrics import RequestMetrics
from runtime.metrics import REGISTRY


class Time:
    def __init__(self) -> None:
        self.now = 100.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    one = Time()
    monkeypatch.setattr(module, "time", one)
    return one


def count(operation: str) -> float:
    return REGISTRY.get_sample_value("hongbao_http_seconds_count", {"operation": operation}) or 0.0


def serve(
    metrics: RequestMetrics, time: Time, numbers: range, operation: str = "openEnvelope", took_s: float = 0.002
) -> None:
    for number in numbers:
        started = metrics.begin()
        time.now += took_s
        metrics.end(operation, 200, started, number)


async def test_a_quiet_system_times_every_request(time: Time) -> None:
    """Each request is in the histogram of its operation, with the time that it took."""
    metrics, before = RequestMetrics(), (count("openEnvelope"), count("getEnvelope"))
    serve(metrics, time, range(1, 8))
    serve(metrics, time, range(8, 11), "getEnvelope", took_s=3.0)
    await metrics.publish()
    assert (count("openEnvelope") - before[0], count("getEnvelope") - before[1]) == (7, 3)
    slow = REGISTRY.get_sample_value("hongbao_http_seconds_bucket", {"operation": "getEnvelope", "le": "2.5"})
    assert slow == before[1]
    await metrics.publish()
    assert count("openEnvelope") - before[0] == 7
    assert metrics.in_flight == 0


async def test_a_crowd_is_sampled_until_it_has_gone(time: Time) -> None:
    """Above TIMED_PER_S in a second one in SAMPLE_EVERY is timed, from that second on; a quiet one ends it."""
    metrics, before = RequestMetrics(), count("openEnvelope")
    many = 10 * TIMED_PER_S
    serve(metrics, time, range(1, many + 1), took_s=1 / many)
    await metrics.publish()
    first = count("openEnvelope") - before
    sampled = sum(number % SAMPLE_EVERY == 0 for number in range(TIMED_PER_S + 1, many + 1))
    assert first == TIMED_PER_S + sampled
    serve(metrics, time, range(1, many + 1), took_s=1 / many)
    await metrics.publish()
    assert count("openEnvelope") - before - first == many // SAMPLE_EVERY
    time.now += 1
    await metrics.publish()
    before = count("openEnvelope")
    serve(metrics, time, range(1, 4))
    await metrics.publish()
    assert count("openEnvelope") - before == 3


async def test_metrics_that_are_asked_for_often_hide_no_crowd(time: Time) -> None:
    """The rate counts, not the number since the last look: a scrape in between makes no quiet second."""
    metrics = RequestMetrics()
    for _ in range(10):
        serve(metrics, time, range(1, TIMED_PER_S + 1), took_s=0.1 / TIMED_PER_S)
        await metrics.publish()
        assert metrics._every == SAMPLE_EVERY
