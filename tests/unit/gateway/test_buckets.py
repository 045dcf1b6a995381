"""Our token buckets beside those of the library `limits`, and their bound in memory."""

import itertools
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from limits import RateLimitItemPerSecond
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter

from gateway.identity.buckets import NS, Buckets

START_S = 1_000_000.0


class Time:
    """The time of both."""

    def __init__(self) -> None:
        self.ns = int(START_S) * NS

    def __call__(self) -> int:
        return self.ns

    def time(self) -> float:
        return self.ns / NS


def window(most: int, seconds: int) -> Iterator[bool]:
    """Yield what the library says to each hit: at most so many in any window of so many seconds."""
    limiter = MovingWindowRateLimiter(MemoryStorage())
    item = RateLimitItemPerSecond(most, seconds)
    while True:
        yield limiter.hit(item, "someone")


pauses = st.lists(st.integers(0, 3_000).map(lambda ms: ms * 1_000_000), min_size=1, max_size=80)


@given(pauses=pauses, most=st.integers(1, 8), seconds=st.integers(1, 5))
@settings(max_examples=150, deadline=None)
def test_it_lies_between_two_windows_of_the_library(pauses: list[int], most: int, seconds: int) -> None:
    """Who keeps to `most` in every window is never refused; who is not refused keeps to twice as many.

    A bucket gives what it holds at once, and as many again while that window passes.
    """
    clock = Time()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("limits.storage.memory.time.time", clock.time)
        buckets = Buckets(most, seconds, 10, clock)
        kept, allowed = window(most, seconds), window(2 * most, seconds)
        keeps = True
        for pause in pauses:
            clock.ns += pause
            keeps = keeps and next(kept)
            if buckets.take("someone") == 0:
                assert next(allowed)
            else:
                assert not keeps


@given(pauses=pauses, most=st.integers(1, 8), seconds=st.integers(1, 5))
@settings(max_examples=150, deadline=None)
def test_it_is_a_bucket_that_fills(pauses: list[int], most: int, seconds: int) -> None:
    """Beside a bucket that is written down drop by drop: the same answers, and the wait that it names is right."""
    clock, interval = Time(), round(seconds * NS / most)
    buckets = Buckets(most, seconds, 10, clock)
    missing_ns = 0  # what the bucket lacks, as the time in which it comes
    for pause in pauses:
        clock.ns += pause
        missing_ns = max(0, missing_ns - pause)
        wait = buckets.take("someone")
        assert (wait == 0) == (missing_ns <= (most - 1) * interval)
        if wait:
            clock.ns += wait
            missing_ns = max(0, missing_ns - wait)
            assert buckets.take("someone") == 0
        missing_ns += interval


def test_each_key_has_a_bucket_and_there_are_so_many() -> None:
    """The one that was used longest ago is dropped."""
    clock = Time()
    buckets = Buckets(1, 60, 3, clock)
    assert [buckets.take(key) for key in "abc"] == [0, 0, 0]
    assert all(buckets.take(key) > 0 for key in "abc")
    clock.ns += 60 * NS
    assert buckets.take("a") == 0
    assert buckets.take("d") == 0
    assert len(buckets) == 3
    assert (buckets.wait_ns("a") > 0, buckets.wait_ns("b")) == (True, 0)


def test_what_is_counted_may_overdraw() -> None:
    """Rejections are counted after the fact."""
    buckets = Buckets(2, 2, 10, Time())
    waits = []
    for _ in range(4):
        waits.append(buckets.wait_ns("x"))
        buckets.count("x")
    assert [max(0, wait) for wait in waits] == [0, 0, NS, 2 * NS]


def test_a_flood_of_keys_takes_no_more_memory() -> None:
    """As many buckets as were allowed."""
    buckets = Buckets(5, 1, 1_000)
    for number in itertools.islice(itertools.count(), 5_000):
        buckets.take(str(number))
    assert len(buckets) == 1_000
