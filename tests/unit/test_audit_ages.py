"""The audit of a sandbox tells ages by the sandbox's clock: rows are dated by it, and the databases' own is behind."""

import pytest

from audit.matching import fund_without_envelope
from audit.proof import check_waiting
from audit.report import Report

AHEAD_S = 40 * 86_400.0


def payout(age_s: float) -> dict[str, object]:
    """A payout that waits, of this age by the sandbox's clock."""
    return {"envelope_id": 1, "seq": 0, "stuck": False, "age_s": age_s - AHEAD_S, "reason": None}


def fund(age_s: float) -> dict[str, object]:
    return {
        "envelope_id": 2611210000000000001, "total_fen": 5, "left_fen": 5, "amount_fen": 5, "sender": "user:a",
        "debit": "user:a", "shown_to": "user:a", "credit": "escrow:261121:001", "kind": 1,
        "paid_for": 2611210000000000001, "age_s": age_s - AHEAD_S,
    }  # fmt: skip


@pytest.mark.parametrize(("age_s", "violations"), [(5.0, 0), (86_400.0, 1), (-7 * 86_400.0, 1)])
def test_a_payout_of_a_sandbox_is_late_by_its_own_clock(age_s: float, violations: int) -> None:
    """Young is fine, a day old is late, from tomorrow would never be late; by the databases' clock all are the last."""
    report = Report(ahead_s=AHEAD_S)
    check_waiting(payout(age_s), report)
    assert report.count == violations
    other = Report()
    check_waiting(payout(age_s), other)
    assert other.count == 1


@pytest.mark.parametrize(("age_s", "violations", "in_flight"), [(5.0, 0, 1), (86_400.0, 1, 0)])
def test_a_create_of_a_sandbox_is_in_flight_by_its_own_clock(age_s: float, violations: int, in_flight: int) -> None:
    """A fund without an envelope is a create in flight only while it is young."""
    report = Report(ahead_s=AHEAD_S)
    fund_without_envelope(report, fund(age_s))
    assert (report.count, report.sums.in_flight) == (violations, in_flight)
