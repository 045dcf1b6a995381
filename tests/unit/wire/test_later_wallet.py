"""Words of a later wallet that this release does not know end nothing, and settle nothing."""

from wire.messages import PayResult, PayStatus
from wire.wallet import _pay_result


def test_an_unknown_outcome_of_a_payout_is_not_final() -> None:
    assert _pay_result(PayStatus.REFUSED, "closed") == PayResult(PayStatus.REFUSED, "closed")
    assert _pay_result(9, "later") == PayResult(PayStatus.UNKNOWN, "status 9, later")
