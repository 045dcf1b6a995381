"""The shapes of the ways: 20,000 seeded envelopes of 20 yuan in 20 shares each, the same ones in every run.

The standard error of a position's mean is under 1 fen (deviation 60 to 125 fen, divided by sqrt(20,000)).
"""

from math import comb

import pytest

from envelope.split import Split, amounts
from tests.sizes import sized

pytestmark = pytest.mark.statistics

ENVELOPES, TOTAL_FEN, COUNT = 20_000, 2_000, 20
BOUNDED = sized(20_000, 4_000)
"""Envelopes of a sample with bounds, of which there are many."""
MEAN_FEN = TOTAL_FEN / COUNT


class Sample:
    """Envelopes of one way: `rows` by envelope, `means` and `deviations` by position, all `shares`."""

    def __init__(self, split, total_fen=TOTAL_FEN, count=COUNT, envelopes=ENVELOPES, *, bounds=None):
        self.rows = [
            amounts(split, total_fen, count, i.to_bytes(32, "big"), **(bounds or {})) for i in range(envelopes)
        ]
        positions = list(zip(*self.rows, strict=True))
        self.means = [sum(position) / envelopes for position in positions]
        self.deviations = [
            (sum((share - mean) ** 2 for share in position) / envelopes) ** 0.5
            for position, mean in zip(positions, self.means, strict=True)
        ]
        self.shares = [share for row in self.rows for share in row]

    def part(self, low, high):
        """Return the part of all shares that lies in low..high."""
        return sum(low <= share <= high for share in self.shares) / len(self.shares)

    def best_in_last(self, positions):
        """Return the part of envelopes whose best luck (first of the largest) is among the last."""
        first = len(self.means) - positions
        return sum(row.index(max(row)) >= first for row in self.rows) / len(self.rows)


@pytest.fixture(scope="module")
def double_mean():
    return Sample(Split.DOUBLE_MEAN)


@pytest.fixture(scope="module")
def narrow():
    return Sample(Split.DOUBLE_MEAN_NARROW)


@pytest.fixture(scope="module")
def line():
    return Sample(Split.LINE_SEGMENTS)


@pytest.fixture(scope="module")
def bell():
    return Sample(Split.BELL)


def test_double_mean_is_fair_at_every_position(double_mean):
    """With the double mean it does not matter in the mean when one comes."""
    assert all(abs(mean - MEAN_FEN) < 2 for mean in double_mean.means)


def test_double_mean_is_fair_to_the_part_of_a_fen():
    """Fair also where rounding would show: 15 fen in 10 shares, mean 1.5 fen at each position."""
    sample = Sample(Split.DOUBLE_MEAN, 15, 10)
    assert all(abs(mean - 1.5) < 0.03 for mean in sample.means)


def test_double_mean_spreads_more_for_who_comes_late(double_mean):
    """The deviation grows with the position: from 2/sqrt(12) of the mean to about 1.35 times that."""
    first, middle, last = (sum(double_mean.deviations[at : at + 5]) / 5 for at in (0, 8, 15))
    assert double_mean.deviations[0] == pytest.approx(2 * MEAN_FEN / 12**0.5, rel=0.02)
    assert first < middle < last
    assert double_mean.deviations[-1] > 1.25 * double_mean.deviations[0]


def test_double_mean_gives_best_luck_late(double_mean):
    """The best luck is among the last 30 % of positions in 44 % of the envelopes."""
    assert double_mean.best_in_last(6) == pytest.approx(0.44, abs=0.03)


def test_double_mean_first_share_is_uniform(double_mean):
    """The first share takes every value from 1 to 199 fen equally often (chi-square, 99.9 %)."""
    expected = ENVELOPES / 199
    firsts = [row[0] for row in double_mean.rows]
    seen = [firsts.count(value) for value in range(1, 200)]
    assert sum(seen) == ENVELOPES
    assert sum((count - expected) ** 2 / expected for count in seen) < 265


def test_narrow_is_fair_at_every_position(narrow):
    """N + 1 parts: the same mean whenever one comes, the last included."""
    assert all(abs(mean - MEAN_FEN) < 0.2 for mean in narrow.means)


def test_narrow_spreads_as_a_total_one_part_in_size(narrow, double_mean):
    """Its deviation at each position is that of the double mean of the last part alone, some N + 1 times smaller."""
    last_part = Sample(Split.DOUBLE_MEAN_NARROW, TOTAL_FEN * 100, COUNT)
    for less, more in zip(last_part.deviations, double_mean.deviations, strict=True):
        assert less / 100 == pytest.approx(more / (COUNT + 1), rel=0.05)
    assert max(narrow.deviations) < max(double_mean.deviations) / 10


def test_narrow_with_little_in_the_last_part_is_still_fair():
    """Where the last part has fewer fen than there are people, some pieces are 0, at every position alike."""
    sample = Sample(Split.DOUBLE_MEAN_NARROW, 47, 20)
    assert all(abs(mean - 2.35) < 0.03 for mean in sample.means)
    assert min(sample.shares) == 2


@pytest.mark.parametrize("split", [Split.DOUBLE_MEAN, Split.DOUBLE_MEAN_NARROW, Split.LINE_SEGMENTS, Split.BELL])
@pytest.mark.parametrize("bounds", [{"min_fen": 60}, {"max_fen": 130}, {"min_fen": 40, "max_fen": 190}])
def test_bounds_favour_no_position(split, bounds):
    """Within bounds every position has the mean of before, in every drawn way."""
    sample = Sample(split, envelopes=BOUNDED, bounds=bounds)
    assert all(abs(mean - MEAN_FEN) < 5 * 100 / BOUNDED**0.5 for mean in sample.means)


def test_a_bound_leaves_what_is_far_from_it_as_it_was(line, bell):
    """A largest share of 300 fen, which few segments reach, moves no other share by much; the tent keeps its top."""
    capped = Sample(Split.LINE_SEGMENTS, bounds={"max_fen": 300})
    for low, high in ((1, 20), (21, 50), (51, 100), (101, 200)):
        assert capped.part(low, high) == pytest.approx(line.part(low, high), abs=0.015)
    tent = Sample(Split.BELL, bounds={"max_fen": 150})
    assert tent.part(85, 115) > bell.part(85, 115)
    parts = [tent.part(low, low + 24) for low in range(1, 101, 25)]
    assert parts == sorted(parts)
    assert tent.part(126, 150) < tent.part(101, 125)


def test_a_bounded_double_mean_is_uniform_about_the_mean():
    """The first share takes every value from 50 to 150 fen equally often where the largest is 150 (chi-square)."""
    firsts = [row[0] for row in Sample(Split.DOUBLE_MEAN, bounds={"max_fen": 150}).rows]
    seen = [firsts.count(value) for value in range(50, 151)]
    assert sum(seen) == ENVELOPES
    assert sum((count - ENVELOPES / 101) ** 2 / (ENVELOPES / 101) for count in seen) < 150


def test_line_segments_are_alike_at_every_position(line):
    """All positions have the same mean and the same deviation, which is nearly the mean itself."""
    assert all(abs(mean - MEAN_FEN) < 3 for mean in line.means)
    assert all(deviation == pytest.approx(94.6, rel=0.04) for deviation in line.deviations)
    assert line.best_in_last(6) == pytest.approx(0.30, abs=0.02)


@pytest.mark.parametrize("fen", [10, 50, 100, 200, 400])
def test_line_segments_have_the_distribution_of_their_formula(line, fen):
    """P(share > x) = C(total - 1 - x, count - 1) / C(total - 1, count - 1)."""
    tail = comb(TOTAL_FEN - 1 - fen, COUNT - 1) / comb(TOTAL_FEN - 1, COUNT - 1)
    assert line.part(fen + 1, TOTAL_FEN) == pytest.approx(tail, abs=0.005)


def test_bell_is_fair_at_every_position(bell):
    """Mean, deviation and best luck do not depend on the position."""
    assert all(abs(mean - MEAN_FEN) < 2 for mean in bell.means)
    assert max(bell.deviations) - min(bell.deviations) < 2
    assert bell.best_in_last(6) == pytest.approx(0.30, abs=0.02)


def test_bell_is_fair_to_the_part_of_a_fen():
    """Settling the difference favours no position: 15 fen in 10 shares, mean 1.5 fen at each."""
    assert all(abs(mean - 1.5) < 0.03 for mean in Sample(Split.BELL, 15, 10).means)


def test_bell_is_a_tent_over_the_mean(bell, double_mean):
    """Nearly half of the shares lie within a quarter of the mean, hardly any at the ends."""
    assert bell.part(75, 125) == pytest.approx(0.46, abs=0.02)
    assert bell.part(75, 125) > 1.6 * double_mean.part(75, 125)
    assert bell.part(1, 10) < 0.01
    parts = [bell.part(low, low + 24) for low in range(1, 200, 25)]
    assert parts[:4] == sorted(parts[:4])
    assert parts[4:] == sorted(parts[4:], reverse=True)
