"""What the check of the model predicts, and how sure it is of what it saw."""

import random

import pytest

from loadtest.plan.check import TIMER_S, p99_range, predicted, usual
from loadtest.plan.queue import Service, predict

STEADY = Service(fixed_s=0.002, per_row_s=20e-6, most=2_000)


@pytest.mark.parametrize("part", [0.3, 0.7])
def test_turns_are_predicted_as_the_queue_says(part: float) -> None:
    """Long turns meet what the queue says for ever, but for lumps and timer, which are a millisecond."""
    rate = part * STEADY.capacity
    said, turns = predict(STEADY, rate), list(predicted(STEADY, rate, 2.0))
    assert usual(turns, 0.5) == pytest.approx(said.p50_s, abs=1.5 * TIMER_S, rel=0.1)
    assert usual(turns, 0.99) == pytest.approx(said.p99_s, abs=1.5 * TIMER_S, rel=0.1)


def test_the_warm_up_does_not_count() -> None:
    """Only opens that were due in the turn itself are in it."""
    turns = predicted(STEADY, 5_000, 0.1, walks=200)
    assert sum(map(len, turns)) == pytest.approx(200 * 500, rel=0.02)


def test_next_to_no_load_an_open_takes_a_batch_of_one() -> None:
    """And no more than the timer's error."""
    turns = predicted(STEADY, 5, 1.0, walks=100)
    assert usual(turns, 0.5) == pytest.approx(STEADY.mean_s(1), abs=TIMER_S / 4)


def test_a_p99_is_as_sure_as_its_turns_agree() -> None:
    """Where nearly half were bad the interval reaches far; one bad turn among thirty moves neither end of it."""
    calm = [[0.001 * (1 + one / 1_000) for one in range(1_000)] for _ in range(30)]
    bad = [[0.05] * 1_000] * 14
    assert p99_range(calm, random.Random(1)) == p99_range([*calm[1:], bad[0]], random.Random(1))
    low, high = p99_range([*calm[14:], *bad], random.Random(1))
    assert low < 0.003
    assert high == 0.05
