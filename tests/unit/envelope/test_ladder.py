"""The ladder of guards: whatever holds at the same time, the answer is the first rung in `PRECEDENCE`."""

from itertools import product

import pytest

from envelope.claim_log import ClaimLog
from envelope.decide import judge, may_see, open_share
from envelope.limits import LIMITS
from envelope.outcomes import PRECEDENCE, Entry, Outcome
from envelope.split import Split
from envelope.terms import Kind, Terms

OPENS, EXPIRES = 1_000, 2_000


def terms(**changed) -> Terms:
    return Terms(
        **{
            "envelope_id": 2611210000000001007, "sender": "sender", "kind": Kind.LUCKY, "split": Split.DOUBLE_MEAN,
            "split_version": 1, "total_fen": 100, "count": 3, "greeting": "", "created_at_ms": 0,
            "opens_at_ms": OPENS, "expires_at_ms": EXPIRES, "seed": bytes(32), "create_key": "k", **changed,
        }
    )  # fmt: skip


CONDITIONS = {
    Outcome.ALREADY_OPENED: "he holds a share",
    Outcome.NOT_INVITED: "he bears no token",
    Outcome.CANCELED: "the sender canceled",
    Outcome.SOLD_OUT: "no share is left",
    Outcome.EXPIRED: "its time is up",
    Outcome.NOT_STARTED: "its hour has not come",
    Outcome.WRONG_PASSWORD: "he says another password",
}
IMPOSSIBLE = ({Outcome.CANCELED, Outcome.SOLD_OUT}, {Outcome.EXPIRED, Outcome.NOT_STARTED})


def combinations() -> list[frozenset[Outcome]]:
    chosen = product(*(((), (outcome,)) for outcome in CONDITIONS))
    sets = [frozenset(one for part in parts for one in part) for parts in chosen]
    return [one for one in sets if not any(pair <= one for pair in IMPOSSIBLE)]


def log_of(conditions: frozenset[Outcome]) -> ClaimLog:
    log = ClaimLog(terms(password_mac="right" if Outcome.WRONG_PASSWORD in conditions else None))
    others = ["a", "b", "c"]
    if Outcome.ALREADY_OPENED in conditions:
        log.append("user", OPENS)
        others.pop()
    if Outcome.SOLD_OUT in conditions:
        for other in others:
            log.append(other, OPENS)
    if Outcome.CANCELED in conditions:
        log.close(Entry.CANCELED, OPENS)
    return log


@pytest.mark.parametrize("conditions", combinations(), ids=lambda one: "+".join(sorted(one)) or "nothing")
def test_the_first_rung_that_applies_is_the_answer(conditions):
    """Of all that stands in the way, an open hears what comes first in PRECEDENCE; with nothing in the way he wins."""
    now_ms = EXPIRES if Outcome.EXPIRED in conditions else OPENS - 1 if Outcome.NOT_STARTED in conditions else OPENS
    token_ok = Outcome.NOT_INVITED not in conditions
    first = next((outcome for outcome in PRECEDENCE if outcome in conditions), Outcome.OPENED)
    log = log_of(conditions)
    before = len(log.winners)
    grabbed = judge(log, "user", token_ok=token_ok, now_ms=now_ms)
    answer = open_share(log, "user", token_ok=token_ok, password_mac="wrong", now_ms=now_ms)
    assert answer.outcome is first
    # A password is asked for by open alone.
    assert grabbed.outcome is (Outcome.OPENABLE if first in (Outcome.OPENED, Outcome.WRONG_PASSWORD) else first)
    assert len(log.winners) == before + (first is Outcome.OPENED)


def test_precedence_names_every_outcome_once():
    """No outcome is without a place."""
    assert sorted(PRECEDENCE) == sorted(Outcome)


def test_an_entry_of_expiry_says_expired_at_any_hour():
    """Once closed by expiry the answer stays, also by a clock that runs behind."""
    log = ClaimLog(terms())
    log.close(Entry.EXPIRED, EXPIRES)
    assert judge(log, "user", token_ok=True, now_ms=OPENS).outcome is Outcome.EXPIRED


def test_an_undone_create_is_shown_as_canceled():
    """What the sweeper undid nobody can open."""
    log = ClaimLog(terms())
    log.close(Entry.UNDONE, 0)
    assert judge(log, "user", token_ok=True, now_ms=OPENS).outcome is Outcome.CANCELED


@pytest.mark.parametrize(
    ("user", "token_ok", "sees", "opens"),
    [
        ("ann", False, True, True),
        ("eve", True, True, False),
        ("eve", False, False, False),
        ("sender", False, True, False),
    ],
)
def test_named_envelopes_open_for_those_named_alone(user, token_ok, sees, opens):
    """A name needs no token to open, a token without a name sees and cannot, the sender sees."""
    log = ClaimLog(terms(invited=frozenset({"ann"})))
    assert may_see(log, user, token_ok=token_ok) is sees
    answer = open_share(log, user, token_ok=token_ok, password_mac=None, now_ms=OPENS)
    assert answer.outcome is (Outcome.OPENED if opens else Outcome.NOT_INVITED)


def test_a_sender_may_open_his_own_if_he_bears_the_token():
    """The sender is a user like others when it comes to opening; without the token he only sees."""
    log = ClaimLog(terms())
    assert open_share(log, "sender", token_ok=True, password_mac=None, now_ms=OPENS).outcome is Outcome.OPENED


def test_after_five_wrong_tries_the_right_password_is_refused():
    """The count is per user, asking without a password costs nothing, and the sixth try never wins."""
    log = ClaimLog(terms(password_mac="right"))

    def attempt(user, password):
        return open_share(log, user, token_ok=True, password_mac=password, now_ms=OPENS)

    asked = attempt("user", None)
    assert (asked.extra, asked.counted) == (
        {"password_required": True, "tries_left": LIMITS.wrong_password_tries},
        False,
    )
    for left in range(LIMITS.wrong_password_tries - 1, -1, -1):
        wrong = attempt("user", "wrong")
        assert (wrong.extra, wrong.counted) == ({"password_required": True, "tries_left": left}, True)
    assert attempt("user", "right").outcome is Outcome.WRONG_PASSWORD
    again = attempt("user", "wrong")
    assert (again.extra, again.counted) == ({"password_required": True, "tries_left": 0}, False)
    grabbed = judge(log, "user", token_ok=True, now_ms=OPENS)
    assert (grabbed.outcome, grabbed.extra) == (Outcome.WRONG_PASSWORD, {"password_required": True, "tries_left": 0})
    assert attempt("other", "right").outcome is Outcome.OPENED


def test_the_last_share_says_so():
    """`last` is told to whoever takes the last share, then and in every repeat."""
    log = ClaimLog(terms())
    answers = [open_share(log, user, token_ok=True, password_mac=None, now_ms=OPENS) for user in "abc"]
    assert [answer.last for answer in answers] == [False, False, True]
    again = judge(log, "c", token_ok=False, now_ms=EXPIRES)
    assert (again.amount_fen, again.seq, again.last) == (answers[2].amount_fen, 2, True)
