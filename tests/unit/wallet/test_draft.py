"""Requests decided one by one on arrival and laid together for a transaction."""

from hypothesis import given
from hypothesis import strategies as st

from runtime.postgres import arrays
from tests.funds import fund_request
from wallet.decide import CONFLICT, Known, decide
from wallet.draft import Columns, Draft, merge
from wallet.postings import PROVIDER
from wallet.requests import DepositRequest, PayOrder, PayRequest, WalletRequest
from wire.messages import PAID, FundStatus, PayKind
from wire.orders import payout_order

ENVELOPE = 2611210000000001007


def order(seq: int, user: str, amount_fen: int) -> PayOrder:
    return PayOrder(payout_order(ENVELOPE, seq), PayKind.CLAIM, user, amount_fen, ENVELOPE)


def request(number: int, kind: str, size: int) -> WalletRequest:
    if kind in ("pay", "pay_out"):
        orders = [order(100 * number + seq, f'u"{seq}\\', 1 + seq) for seq in range(size)]
        return PayRequest(orders, through=PROVIDER if kind == "pay_out" else None)
    if kind == "fund":
        return fund_request(f"k{number}", "f", "ann", 7, ENVELOPE + 1000 * number)
    return DepositRequest(f"d{number}", "bob", 1 + size)


@given(st.lists(st.tuples(st.sampled_from(["pay", "pay_out", "fund", "deposit"]), st.integers(0, 4)), max_size=6))
def test_drafts_laid_together_are_the_batch_decided_as_a_whole(kinds):
    """Answers, funds and postings are the same, whatever is in the batch; the columns hold each posting once."""
    requests = [request(number, *kind) for number, kind in enumerate(kinds)]
    whole = decide(requests, Known.nothing())
    plan, columns = merge([Draft(one) for one in requests])
    assert (plan.answers, plan.funds) == (whole.answers, whole.funds)
    assert sorted(plan.postings) == sorted(whole.postings)
    wanted = Columns.of(plan.postings)
    if wanted is None:
        assert columns is None
        return
    names = ("debits", "credits", "users")
    assert columns is not None
    assert [list(getattr(columns, name)) for name in names] == [list(getattr(wanted, name)) for name in names]
    assert columns[:4] == wanted[:4]


def test_what_repeats_another_draft_of_the_batch_is_paid_once():
    """An order, a create or a deposit that is in a batch twice moves money once; another one is refused."""
    requests = [
        PayRequest([order(0, "ann", 5), order(1, "bob", 6)]),
        fund_request("k", "f", "ann", 7, ENVELOPE),
        PayRequest([order(1, "bob", 6), order(0, "ann", 6)]),
        fund_request("k", "f", "ann", 7, ENVELOPE + 1000),
    ]
    plan, columns = merge([Draft(one) for one in requests])
    assert plan.answers == [
        [PAID, PAID],
        (FundStatus.DONE, ENVELOPE, b""),
        [PAID, CONFLICT],
        (FundStatus.REPLAYED, ENVELOPE, b""),
    ]
    assert columns is not None
    assert len(plan.postings) == len(columns.debits) == 3
    assert len(plan.funds) == 1


def test_a_draft_is_not_changed_by_the_batch_it_is_in():
    """A batch that must be tried again is laid together from the same drafts."""
    drafts = [Draft(request(0, "pay", 2)), Draft(request(1, "fund", 0))]
    assert merge(drafts) == merge(drafts)


@given(st.lists(st.lists(st.text(max_size=3), max_size=3), max_size=4))
def test_joined_literals_hold_the_elements_of_all(parts):
    """Joining literals is the literal of the joined lists, empty ones included."""
    together = [text for part in parts for text in part]
    assert arrays.joined([arrays.texts(part) for part in parts]) == arrays.texts(together)
