"""What a create says, read off the link."""

from datetime import UTC, datetime, timedelta

import pytest

from envelope.limits import LIMITS
from envelope.split import Split
from envelope.terms import Kind
from errors import Refused
from setnode.creation.request import read_create

TERMS = {"kind": "lucky", "split": "bell", "total_fen": 100, "count": 20, "expires_in_s": 60}


def test_what_is_left_out_has_a_default():
    """A caller may leave out what most creates have not."""
    create = read_create(["ann", "k", "f", [2611210000000001007], TERMS])
    assert (create.sender, create.envelope_ids) == ("ann", [2611210000000001007])
    wish = create.terms
    assert (wish.kind, wish.split, wish.greeting) == (Kind.LUCKY, Split.BELL, "")
    assert wish.to is wish.password is wish.opens_at_ms is None


def test_receivers_are_a_set_and_a_password_is_not_shown():
    """The order of receivers means nothing; whoever prints a create does not print its password."""
    terms = {**TERMS, "count": 2, "to": ["cid", "bob", "cid"], "password": "secret-1234"}
    create = read_create(["ann", "k", "f", [2611210000000001007], terms])
    assert create.terms.to == {"bob", "cid"}
    assert create.terms.password == "secret-1234"
    assert "1234" not in repr(create)


@pytest.mark.parametrize("opens_at_ms", [2**53, 253402300799000, 253402300799000 - 10**9, 1_797_000_000_000])
def test_a_start_that_no_envelope_of_its_day_may_have_is_refused(opens_at_ms):
    """Further ahead than the rules allow from the ID's day, up to instants that no calendar has: before any money."""
    with pytest.raises(Refused) as caught:
        read_create(["ann", "k", "f", [2611210000000001007], {**TERMS, "opens_at_ms": opens_at_ms}])
    assert caught.value.code == "malformed_request"


@pytest.mark.parametrize("unwanted", ["\0", "\n", "\x1b[2J", "\x7f", "\x85", "\u2028", "\u202e"])
@pytest.mark.parametrize(
    ("field", "code"),
    [("greeting", "control_character"), ("password", "control_character"), ("to", "malformed_request")],
)
def test_a_text_that_no_gateway_lets_pass_is_refused(field, code, unwanted):
    """A greeting that moves a terminal's cursor or reads as two lines is taken from no gateway; nor is such a name."""
    text = f"恭喜{unwanted}发财"
    with pytest.raises(Refused) as caught:
        read_create(
            ["ann", "k", "f", [2611210000000001007], {**TERMS, "count": 1, field: [text] if field == "to" else text}]
        )
    assert caught.value.code == code


def test_a_start_within_the_rules_is_taken():
    """Five days ahead of the last minute of the ID's day, in a zone behind ours."""
    latest = datetime(2026, 11, 22, 12, tzinfo=UTC) + timedelta(seconds=LIMITS.max_opens_in_s)
    opens_at_ms = int(latest.timestamp() * 1000)
    create = read_create(["ann", "k", "f", [2611210000000001007], {**TERMS, "opens_at_ms": opens_at_ms}])
    assert create.terms.opens_at_ms == opens_at_ms


def test_a_start_and_a_duration_that_go_past_the_longest_life_are_refused():
    """As long as an envelope may stay open, it may start only so much earlier: its day must be able to go cold."""
    latest = datetime(2026, 11, 22, 12, tzinfo=UTC) + timedelta(seconds=LIMITS.max_lives_s - LIMITS.max_expires_in_s)
    terms = {**TERMS, "expires_in_s": LIMITS.max_expires_in_s, "opens_at_ms": int(latest.timestamp() * 1000)}
    assert read_create(["ann", "k", "f", [2611210000000001007], terms]).terms.expires_in_s == LIMITS.max_expires_in_s
    late = {**terms, "opens_at_ms": terms["opens_at_ms"] + 86_400_000}
    with pytest.raises(Refused) as caught:
        read_create(["ann", "k", "f", [2611210000000001007], late])
    assert caught.value.code == "malformed_request"


@pytest.mark.parametrize(
    "strange",
    [2602310000001000007, 2611220000000001007, 2611210000000001008],
    ids=["of no day", "of another day", "of another slot"],
)
@pytest.mark.parametrize("first", [True, False])
def test_all_candidates_are_of_one_day_and_one_slot(strange, first):
    """Only the first is admitted by its slot; one of no day would fail every create of its batch."""
    good = 2611210000000001007
    with pytest.raises(Refused) as caught:
        read_create(["ann", "k", "f", [strange, good] if first else [good, good + 1_000, strange], TERMS])
    assert caught.value.code == "malformed_request"
