"""What the check of the model says of its turns."""

import pytest

from loadtest.group_commit import GroupCommit, Latency
from loadtest.plan.check import Finding, Turn, compared, predicted


def turn(predicted_ms: float, seen_ms: float) -> Turn:
    return Turn(1_000.0, Latency(0.001, predicted_ms / 1e3), Latency(0.001, seen_ms / 1e3))


def test_the_median_turn_is_compared() -> None:
    """One turn in which the host looked away moves neither what was predicted nor what was seen."""
    found = compared(0.5, [turn(4.0, 5.0), turn(4.4, 5.2), turn(900.0, 5.1), turn(4.2, 900.0), turn(4.1, 4.9)])
    assert (found.part, found.rate) == (0.5, 1_000.0)
    assert found.predicted_p99_ms == pytest.approx(4.2)
    assert found.seen_p99_ms == pytest.approx(5.1)
    assert found.off == pytest.approx(4.2 / 5.1 - 1)


@pytest.mark.parametrize(
    ("predicted_ms", "holds"), [(6.9, False), (7.1, True), (10.0, True), (12.9, True), (13.1, False)]
)
def test_it_holds_within_three_tenths(predicted_ms: float, holds: bool) -> None:
    """Too high counts like too low, and one load that is off is enough to fail."""
    one, good = compared(0.3, [turn(predicted_ms, 10.0)]), compared(0.7, [turn(10.0, 10.0)])
    assert one.holds is holds
    assert Finding([good, one], 0.0).holds is holds


def test_a_turn_that_cannot_keep_up_is_one_end_of_the_median() -> None:
    """A model whose queue would grow predicts no figure for its turn, and the turns together still have one."""
    model = GroupCommit(fixed_s=0.001, per_row_s=100e-6, most=100)
    slow = Turn(20_000.0, predicted(model, 20_000.0), Latency(0.5, 0.9))
    found = compared(0.7, [turn(5.0, 5.0), slow, turn(4.0, 4.0)])
    assert (found.predicted_p99_ms, found.seen_p99_ms) == (pytest.approx(5.0), pytest.approx(5.0))
    assert predicted(model, 1_000.0) == model.latency(1_000.0)
