"""The creates of a moment ago: whose ID is taken, and how many are kept."""

from tests.funds import DRAFT, HEADER, fund_request
from wallet.draft import Draft, merge
from wallet.postings import FundRow
from wallet.recent import RecentCreates
from wallet.requests import DepositRequest, FundRequest
from wire.messages import FundStatus

ENVELOPE = 2611210000000001007


def made(number: int) -> FundRow:
    return FundRow(f"k{number}", "f", "user:ann", 7, ENVELOPE + 1000 * number, HEADER, DRAFT)


def wish(key: str, number: int) -> FundRequest:
    return fund_request(key, "f", "ann", 7, ENVELOPE + 1000 * number)


def test_an_id_is_taken_by_another_create_only():
    """A create that asks again under its own key must hear what the database says of it."""
    recent = RecentCreates()
    recent.remember([made(0), made(1)])
    asked = [wish("other", 0), wish("k1", 1), wish("new", 2), DepositRequest("d", "ann", 7)]
    assert recent.taken_from(asked) == {ENVELOPE}
    recent.forget()
    assert recent.taken_from(asked) == set()


def test_the_last_are_kept_and_memory_is_bounded():
    """At least as many as was said are known, and never twice as many."""
    recent = RecentCreates(least=10)
    for number in range(95):
        recent.remember([made(number)])
        known = len(recent.taken_from([wish("other", one) for one in range(number + 1)]))
        assert min(number + 1, 10) <= known < 20


def test_a_taken_id_is_told_and_posts_nothing():
    """The others of the batch are as if it were not there, each time the batch is tried."""
    drafts = [Draft(wish("a", 0)), Draft(wish("b", 1))]
    for _ in range(2):
        plan, columns = merge(drafts, {ENVELOPE})
        assert plan.answers == [(FundStatus.ID_TAKEN, ENVELOPE, b""), (FundStatus.DONE, ENVELOPE + 1000, b"")]
        assert columns is not None
        assert (len(plan.postings), len(plan.funds), len(columns.debits)) == (1, 1, 1)
