"""A client's retries stay a small part of its requests."""

from client import RetryBudget


def test_retries_are_a_tenth_of_the_requests() -> None:
    """However many requests fail: a tenth of them, and what was in reserve."""
    budget, retries = RetryBudget(), 0
    for _ in range(10_000):
        budget.sent()
        while budget.may_retry():
            retries += 1
    assert 1_000 <= retries <= 1_010


def test_what_is_not_needed_is_not_saved_up() -> None:
    """After a long calm no more may be retried at once than at the start."""
    budget = RetryBudget(part=0.5, reserve=3)
    for _ in range(100):
        budget.sent()
    assert [budget.may_retry() for _ in range(4)] == [True, True, True, False]
