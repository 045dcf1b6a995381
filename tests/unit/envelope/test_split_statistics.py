"""The shapes of the ways: 20,000 seeded envelopes of 20 yuan in 20 shares each, the same ones in every run.

The standard error of a position's mean is under 1 fen (deviation 60 to 125 fen, divided by sqrt(20,000)).
"""

from math import comb

import pytest

from envelope.split import Split, amounts

pytestmark = pytest.mark.statistics

ENVELOPES, TOTAL_FEN, COUNT = 20_000, 2_000, 20
MEAN_FEN = TOTAL_FEN / COUNT


class Sample:
    """Envelopes of one way: `rows` by envelope, `means` and `deviations` by position, all `shares`."""

    def __init__(self, split, total_fen=TOTAL_FEN, count=COUNT, envelopes=ENVELOPES):
        self.rows = [amounts(split, total_fen, count, i.to_bytes(32, "big")) for i in range(envelopes)]
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


def test_narrow_gives_the_last_one_two_parts(narrow):
    """N + 1 parts: all get one part of what is above a fen, the last one two."""
    part = (TOTAL_FEN - COUNT) / (COUNT + 1)
    assert all(abs(mean - 1 - part) < 2 for mean in narrow.means[:-1])
    assert abs(narrow.means[-1] - 1 - 2 * part) < 4


def test_narrow_is_narrower_than_double_mean(narrow, double_mean):
    """Everybody but the last plays for less than with the double mean."""
    pairs = zip(narrow.deviations[:-1], double_mean.deviations[:-1], strict=True)
    assert all(less < more for less, more in pairs)


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
