"""The rules of a batch, without a database."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from errors import Refused
from tests.funds import fund_request
from wallet.decide import CONFLICT, OVERPAID, SHORT, Known, decide
from wallet.postings import OUTSIDE, Posting, TransferKind, user_account
from wallet.requests import DepositRequest, PayOrder, PayRequest, read, read_orders
from wire.messages import PAID, FundStatus, PayKind, PayStatus
from wire.orders import escrow_account, payout_order

ENVELOPE = 2611210000000001007
ESCROW = escrow_account(ENVELOPE)


def order(seq: int, user: str, amount_fen: int) -> PayOrder:
    return PayOrder(payout_order(ENVELOPE, seq), PayKind.CLAIM, user, amount_fen, ENVELOPE)


def test_the_same_order_twice_in_one_batch_moves_money_once():
    """An order repeated within a batch is paid once and answered PAID twice."""
    plan = decide([PayRequest([order(0, "ann", 5)]), PayRequest([order(0, "ann", 5)])], Known.nothing())
    assert plan.answers == [[PAID], [PAID]]
    assert len(plan.postings) == 1


@pytest.mark.parametrize("other", [order(0, "ann", 6), order(0, "bob", 5)])
def test_the_same_number_for_something_else_is_a_conflict(other):
    """A known number with another amount or user is refused, whatever it asks for."""
    plan = decide([PayRequest([order(0, "ann", 5), other])], Known.nothing())
    assert plan.answers == [[PAID, CONFLICT]]


def test_money_missing_in_the_middle_refuses_only_that_order():
    """With known balances, the orders before and after a short one are paid."""
    known = Known(balances={ESCROW: 10})
    plan = decide([PayRequest([order(0, "ann", 5), order(1, "bob", 6), order(2, "cid", 5)])], known)
    assert plan.answers == [[PAID, SHORT, PAID]]
    assert known.balances[ESCROW] == 0


def test_what_a_batch_brings_in_may_be_spent_later_in_it():
    """A deposit pays for a fund behind it, and the fund's escrow for a payout behind that."""
    requests = [
        DepositRequest("d", "ann", 7),
        fund_request("k", "f", "ann", 7, ENVELOPE),
        PayRequest([order(0, "bob", 7)]),
        fund_request("l", "f", "bob", 8, ENVELOPE + 1000),
    ]
    plan = decide(requests, Known(balances={}, left={}))
    assert plan.answers == [
        "user:ann",
        (FundStatus.DONE, ENVELOPE, b""),
        [PAID],
        (FundStatus.INSUFFICIENT, ENVELOPE + 1000, b""),
    ]


def test_a_create_is_known_by_its_key_before_anything_else():
    """Replay, reused key and taken ID are told apart, and a replay needs no money."""
    known = Known(funds={"k": ("f", ENVELOPE, b"draft")}, taken={ENVELOPE}, balances={})
    requests = [
        fund_request("k", "f", "ann", 7, ENVELOPE + 5),
        fund_request("k", "g", "ann", 7, ENVELOPE),
        fund_request("l", "f", "ann", 7, ENVELOPE),
    ]
    answers = decide(requests, known).answers
    assert answers == [
        (FundStatus.REPLAYED, ENVELOPE, b"draft"),
        (FundStatus.KEY_REUSED, ENVELOPE, b""),
        (FundStatus.ID_TAKEN, ENVELOPE, b""),
    ]


def test_an_envelope_is_paid_from_its_own_fund_alone():
    """The escrow of its day and slot holds more, and still no payout exceeds what was paid in for the envelope."""
    escrow = escrow_account(ENVELOPE)
    known = Known(balances={escrow: 1_000}, left={ENVELOPE: 10})
    plan = decide([PayRequest([order(0, "bob", 7), order(1, "cid", 4), order(2, "dan", 3)])], known)
    assert plan.answers == [[PAID, OVERPAID, PAID]]
    unfunded = PayOrder(payout_order(ENVELOPE + 1_000, 0), PayKind.CLAIM, "bob", 1, ENVELOPE + 1_000)
    assert decide([PayRequest([unfunded])], known).answers == [[OVERPAID]]
    assert known.balances[escrow] == 990


def test_a_deposit_number_of_something_else_is_refused_alone():
    """A conflict of one deposit is that caller's error; the other of the batch goes in."""
    known = Known(orders={"d": Posting("d", TransferKind.DEPOSIT, "", "", user_account("bob"), 7, None)}, balances={})
    plan = decide([DepositRequest("d", "ann", 7), DepositRequest("e", "ann", 7)], known)
    assert isinstance(plan.answers[0], Refused)
    assert plan.answers[1] == "user:ann"


_users = st.sampled_from(["ann", "bob", "cid"])
_amounts = st.integers(1, 9)
_requests = st.one_of(
    st.builds(DepositRequest, st.sampled_from("defg"), _users, _amounts),
    st.builds(fund_request, st.sampled_from("kl"), st.sampled_from("xy"), _users, _amounts, st.just(ENVELOPE)),
    st.builds(PayRequest, st.lists(st.builds(order, st.integers(0, 4), _users, _amounts), max_size=4)),
)


@given(st.lists(_requests, max_size=12))
def test_no_sequence_makes_money_or_spends_what_is_not_there(requests):
    """Whatever is asked, balances sum to zero, only the outside owes, and no order number is posted twice."""
    known = Known(balances={}, left={})
    plan = decide(requests, known)
    assert sum(known.balances.values()) == 0
    assert all(fen >= 0 for fen in known.left.values())
    assert all(fen >= 0 for name, fen in known.balances.items() if name != OUTSIDE)
    assert len({posting.order_no for posting in plan.postings}) == len(plan.postings)


@pytest.mark.parametrize(
    "args",
    [
        ["d", "ann", 0],
        ["d", "ann", -1],
        ["d", "ann", 1.5],
        ["d", "ann", 2**63],
        ["d", "", 1],
        ["d", "u" * 60, 1],
        ["d", "a\0", 1],
        ["d" * 65, "ann", 1],
        ["d", "ann"],
    ],
)
def test_what_does_not_fit_its_column_stops_at_the_door(args):
    """A malformed request is refused before it can fail a batch."""
    with pytest.raises(Refused):
        read(DepositRequest, args)


def test_a_malformed_order_refuses_its_whole_list():
    """One order that is not an order refuses the PAY, with nothing done."""
    with pytest.raises(Refused):
        read_orders([["n", 0, "ann", 1, ENVELOPE], ["n", 9, "ann", 1, ENVELOPE]])


def test_results_have_the_numbers_of_the_wire_format():
    """They count from 0 without a gap, as every version of a caller reads them."""
    assert [one.value for one in FundStatus] == list(range(len(FundStatus)))
    assert [one.value for one in PayStatus] == list(range(len(PayStatus)))
