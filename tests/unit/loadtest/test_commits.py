"""The stopwatch of group commits: what a batch adds to the time that a SET is at work."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from loadtest.bench import commits


@pytest.fixture
def queue() -> SimpleNamespace:
    """A queue whose next batch is put there by the test."""
    queue = SimpleNamespace(next=None)
    queue.next_batch = lambda _: queue.next
    queue.on_committed = queue.on_failed = lambda *_: None
    return queue


@pytest.mark.parametrize(
    ("spans", "counted"),
    [
        ([(0, 2), (2, 3), (5, 9)], [(1, 2), (2, 1), (3, 4)]),
        ([(0, 4), (1, 6)], [(1, 4), (2, 2)]),
        ([(0, 4), (1, 3)], [(2, 3), (1, 1)]),
        ([(0, 4), (1, 6), (5, 9), (20, 21)], [(1, 4), (2, 2), (3, 3), (4, 1)]),
    ],
    ids=["one at a time", "overlapping", "one within the other", "a chain, then alone"],
)
def test_batches_share_the_time_in_which_they_overlap(
    queue: SimpleNamespace,
    monkeypatch: pytest.MonkeyPatch,
    spans: list[tuple[int, int]],
    counted: list[tuple[int, int]],
) -> None:
    """Together they come to the time in which any was in flight; batch number n has n rows."""
    now = 0.0
    monkeypatch.setattr(commits.time, "perf_counter", lambda: now)
    watch = commits.Stopwatch(cast("Any", SimpleNamespace(node=SimpleNamespace(claim_queue=queue))))
    found: list[tuple[int, float]] = []
    batches = [[0] * number for number in range(1, len(spans) + 1)]
    events = [(end, 0, batch) for (_, end), batch in zip(spans, batches, strict=True)]
    events += [(start, 1, batch) for (start, _), batch in zip(spans, batches, strict=True)]
    with watch.counting(found):
        for at, starts, batch in sorted(events, key=lambda event: event[:2]):
            now = float(at)
            if starts:
                queue.next = batch
                queue.next_batch(set())
            else:
                queue.on_committed(batch, None)
    assert found == counted
    queue.next_batch(set())
    queue.on_committed(queue.next, None)
    assert found == counted, "what comes after the block is nobody's"


def test_a_lost_batch_leaves_no_trace(queue: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is idle time after it belongs to nobody."""
    now = 0.0
    monkeypatch.setattr(commits.time, "perf_counter", lambda: now)
    watch = commits.Stopwatch(cast("Any", SimpleNamespace(node=SimpleNamespace(claim_queue=queue))))
    found: list[tuple[int, float]] = []
    queue.next = [0]
    with watch.counting(found):
        queue.next_batch(set())
        now = 5.0
        queue.on_failed(queue.next, OSError())
        now = 100.0
        queue.next_batch(set())
        now = 103.0
        queue.on_committed(queue.next, None)
    assert found == [(1, 3.0)]


@pytest.mark.parametrize(
    ("overruns", "sent"), [(0, [1_000.0]), (2, [1_000.0, 750.0, 562.5]), (9, [1_000.0, 750.0, 562.5, 421.875])]
)
async def test_a_load_above_what_is_carried_is_tried_again_slower(
    queue: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, overruns: int, sent: list[float]
) -> None:
    """Up to three times; a SET that cannot carry four tenths of it is not calibrated."""
    rates: list[float] = []

    async def open_loop(_one: Any, rate: float, *_: Any) -> list[float]:
        rates.append(rate)
        if len(rates) <= overruns:
            raise commits.Overrun("busy", "too much")
        return []

    monkeypatch.setattr(commits, "open_loop", open_loop)
    one = cast("Any", SimpleNamespace(node=SimpleNamespace(claim_queue=queue)))
    calibration = commits.Calibration(one, windows=(), loads=(0.5,))
    if overruns < len(sent):
        assert await calibration.send(1_000.0, 0.1) == (sent[-1], [])
    else:
        with pytest.raises(commits.Overrun):
            await calibration.send(1_000.0, 0.1)
    assert rates == sent
