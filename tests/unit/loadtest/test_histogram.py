import math
import random

from loadtest.histogram import ERROR, LEAST_MS, MOST_MS, Histogram, merged


def exact(values, percent):
    return sorted(values)[math.ceil(len(values) * percent / 100) - 1]


def test_percentiles_are_within_the_error_that_is_promised():
    """Over values of five orders of magnitude each percentile is at most ERROR away from the exact one."""
    luck = random.Random(7)
    values = [10 ** luck.uniform(-1, 4) for _ in range(20_000)]
    seen = Histogram()
    for value in values:
        seen.record(value)
    for percent in (0.1, 25, 50, 90, 99, 99.9, 100):
        assert abs(seen.percentile(percent) / exact(values, percent) - 1) <= ERROR * 1.0001
    assert ERROR <= 0.0101
    assert seen.max_ms == max(values)


def test_two_halves_are_the_whole():
    """What two processes counted gives, added up, what one would have counted."""
    whole, halves = Histogram(), [Histogram(), Histogram()]
    for number in range(1, 5_000):
        whole.record(number / 7)
        halves[number % 2].record(number / 7)
    assert merged(halves) == whole


def test_the_ends():
    """Nothing counted is 0; too quick and too slow go to the outer buckets; no percentile exceeds the maximum."""
    seen = Histogram()
    assert seen.percentile(99) == 0.0
    for value in (0.0, -0.001, LEAST_MS / 2, MOST_MS * 10):
        seen.record(value)
    assert seen.total == 4
    assert seen.percentile(50) <= LEAST_MS * (1 + 2 * ERROR)
    assert seen.percentile(100) <= seen.max_ms
    one = Histogram()
    one.record(5.0)
    assert one.percentile(50) <= 5.0
