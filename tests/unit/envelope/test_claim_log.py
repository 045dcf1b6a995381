"""The claim log: the stock in memory, its invariants, and what it shows before and after a commit."""

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envelope import invariants
from envelope.claim_log import ClaimLog
from envelope.outcomes import Entry, State
from envelope.split import Split, amounts
from errors import InvariantBroken
from tests.unit.envelope.test_ladder import EXPIRES, OPENS, terms


def entries_of(log: ClaimLog) -> list[tuple[int, str, str, int, int]]:
    opens = [(seq, "open", user, log.amounts[seq], log.times[seq]) for user, seq in log.winners.items()]
    if log.closing is None:
        return opens
    return [*opens, (log.closing.seq, log.closing.entry.value, "", log.closing.amount_fen, log.closing.at_ms)]


def commit(log: ClaimLog) -> None:
    log.mark_committed()


def test_seqs_are_dense_and_amounts_follow_from_them():
    """The n-th open gets the n-th share of the seed."""
    log = ClaimLog(terms())
    assert [log.append(user, OPENS) for user in "abc"] == [0, 1, 2]
    assert list(log.amounts) == amounts(Split.DOUBLE_MEAN, 100, 3, bytes(32), 1)
    assert (log.left_fen, log.sold_out, log.final) == (0, True, True)


def test_a_closing_entry_takes_all_that_is_left():
    """It stands at the next seq and nothing is left after it."""
    log = ClaimLog(terms())
    log.append("a", OPENS)
    closing = log.close(Entry.CANCELED, OPENS)
    assert (closing.seq, closing.amount_fen, log.left_fen) == (1, 100 - log.amounts[0], 0)
    invariants.balanced(log)


def test_only_what_is_committed_is_shown():
    """A decided claim or closing shows in neither claims nor state before its commit."""
    log = ClaimLog(terms())
    log.append("a", OPENS)
    log.mark_committed()
    log.append("b", OPENS)
    assert [user for user, _, _ in log.claims()] == ["a"]
    log.close(Entry.CANCELED, OPENS)
    assert log.state(OPENS) is State.OPEN
    commit(log)
    assert log.state(OPENS) is State.CANCELED
    assert [user for user, _, _ in log.claims()] == ["a", "b"]


def test_a_last_share_on_its_way_is_not_sold_out_yet():
    """`sold_out` is told once the last claim is durable."""
    log = ClaimLog(terms())
    for user in "ab":
        log.append(user, OPENS)
    log.mark_committed()
    log.append("c", OPENS)
    assert log.state(OPENS) is State.OPEN
    commit(log)
    assert log.state(EXPIRES) is State.SOLD_OUT


@pytest.mark.parametrize(
    ("now_ms", "state"),
    [(OPENS - 1, State.SCHEDULED), (OPENS, State.OPEN), (EXPIRES - 1, State.OPEN), (EXPIRES, State.EXPIRED)],
)
def test_the_state_of_an_untouched_envelope_is_the_hour(now_ms, state):
    """opens_at is inside, expires_at is not."""
    assert ClaimLog(terms()).state(now_ms) is state


@pytest.mark.parametrize(("entry", "state"), [(Entry.EXPIRED, State.EXPIRED), (Entry.UNDONE, State.CANCELED)])
def test_a_closed_envelope_keeps_its_state(entry, state):
    """Whatever the clock says, the entry decides."""
    log = ClaimLog(terms())
    log.close(entry, OPENS)
    commit(log)
    assert log.state(OPENS) is state


def broken(check, act) -> None:
    with pytest.raises(InvariantBroken) as raised:
        act()
    assert raised.value.check == check


def test_nobody_appends_twice_or_past_the_shares_or_after_the_close_or_without_a_name():
    """may_append raises for each."""
    log = ClaimLog(terms())
    broken("claims_within_shares", lambda: log.append("", OPENS))
    log.append("a", OPENS)
    broken("claims_within_shares", lambda: log.append("a", OPENS))
    log.append("b", OPENS)
    log.append("c", OPENS)
    broken("claims_within_shares", lambda: log.append("d", OPENS))
    closed = ClaimLog(terms())
    closed.close(Entry.EXPIRED, EXPIRES)
    broken("claims_within_shares", lambda: closed.append("a", OPENS))


def test_nobody_closes_twice_or_what_is_sold_out():
    """may_close raises for each."""
    log = ClaimLog(terms())
    log.close(Entry.EXPIRED, EXPIRES)
    broken("closed_once", lambda: log.close(Entry.CANCELED, EXPIRES))
    sold = ClaimLog(terms(count=1))
    sold.append("a", OPENS)
    broken("closed_once", lambda: sold.close(Entry.EXPIRED, EXPIRES))


@pytest.mark.parametrize(
    ("check", "entries"),
    [
        ("log_is_dense", [(1, "open", "a", 1, 0)]),
        ("log_is_dense", [(0, "expired", "", 100, 0), (1, "open", "a", 1, 0)]),
        ("log_is_dense", [(0, "expired", "", 100, 0), (0, "canceled", "", 100, 0)]),
        ("amount_follows_seed", [(0, "open", "a", 101, 0)]),
        ("amount_follows_seed", [(0, "expired", "", 99, 0)]),
    ],
)
def test_a_stored_log_that_does_not_follow_is_refused(check, entries):
    """A hole, an entry after the closing one, an amount that the seed does not give: restore raises."""
    broken(check, lambda: ClaimLog(terms()).restore(entries))


@pytest.mark.parametrize("shares", [[50, 51, 1], [50, 30, 10], [50, 50, 1], [60, 50, -10]])
def test_shares_that_are_not_the_total_are_never_given(shares):
    """Whatever draws them: the running sum stays within the total, and the last share takes exactly the rest."""
    log = ClaimLog(terms())
    log._amounts = array("q", shares)
    broken("shares_are_the_total", lambda: [log.append(user, OPENS) for user in "abc"])
    invariants.balanced(log)


def test_money_that_does_not_add_up_is_noticed():
    """Balanced raises when a fen is missing or the rest is negative."""
    log = ClaimLog(terms())
    log.left_fen -= 1
    broken("paid_in_is_accounted_for", lambda: invariants.balanced(log))


@given(
    total_fen=st.integers(1, 5_000), count=st.integers(1, 40), seed=st.binary(min_size=32, max_size=32),
    split=st.sampled_from(Split), users=st.lists(st.integers(0, 50), max_size=60), close_at=st.integers(0, 60),
)  # fmt: skip
def test_any_sequence_of_opens_and_closes_stays_balanced(total_fen, count, seed, split, users, close_at):
    """Paid in = claimed + refunded + open after every step, and a log restored from its entries is the same log."""
    log = ClaimLog(terms(total_fen=total_fen, count=min(count, total_fen), seed=seed, split=split))
    for step, user in enumerate(users):
        if step == close_at and not log.final:
            log.close(Entry.CANCELED, step)
        elif not log.final and str(user) not in log.winners:
            log.append(str(user), step)
        invariants.balanced(log)
    again = ClaimLog(log.terms)
    again.restore(entries_of(log))
    commit(log)
    assert (again.winners, again.closing, again.left_fen, again.committed) == (
        log.winners, log.closing, log.left_fen, log.committed,
    )  # fmt: skip
    assert again.claims() == log.claims()
