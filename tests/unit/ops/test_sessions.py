"""Sessions: who holds which key, until when."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from errors import Refused
from ops.limits import SESSION_S
from ops.sessions import Role, Sessions
from tests.clock import ManualClock

KEYS = {Role.OPERATOR: "o" * 32, Role.VIEWER: "v" * 32}


def sessions() -> tuple[Sessions, ManualClock]:
    clock = ManualClock(datetime(2026, 11, 26, 3, tzinfo=UTC))
    return Sessions(KEYS, clock), clock


def test_a_session_ends_after_a_shift() -> None:
    """It is good until its end and not after it, and another process with the same keys knows it."""
    one, clock = sessions()
    login = one.log_in(KEYS[Role.OPERATOR], " Mei ")
    other = Sessions(KEYS, clock)
    assert other.who(None, login.cookie, login.proof) == login.who
    assert (login.who.role, login.who.name) == (Role.OPERATOR, "Mei")
    clock.advance(seconds=SESSION_S - 1)
    assert other.who(None, login.cookie, login.proof).role is Role.OPERATOR
    clock.advance(seconds=2)
    with pytest.raises(Refused, match="has ended") as caught:
        other.who(None, login.cookie, login.proof)
    assert caught.value.code == "session_ended"


def test_another_key_ends_all_sessions_of_its_role() -> None:
    """Whoever replaces a key has logged everybody out who came by it, and nobody else."""
    one, clock = sessions()
    operator, viewer = one.log_in(KEYS[Role.OPERATOR], ""), one.log_in(KEYS[Role.VIEWER], "")
    later = Sessions({**KEYS, Role.OPERATOR: "n" * 32}, clock)
    assert later.who(None, viewer.cookie, viewer.proof).role is Role.VIEWER
    with pytest.raises(Refused):
        later.who(None, operator.cookie, operator.proof)


def test_a_viewer_does_not_become_an_operator() -> None:
    """The role is part of what is signed, each role's by its own key; two sessions' halves do not fit."""
    one, _ = sessions()
    viewer, operator = one.log_in(KEYS[Role.VIEWER], "x"), one.log_in(KEYS[Role.OPERATOR], "x")
    body, mac = operator.cookie.split(".")
    for cookie, proof in (
        (f"{body}.{viewer.cookie.split('.')[1]}", viewer.proof),
        (operator.cookie, viewer.proof),
        (viewer.cookie, operator.proof),
        (operator.cookie, mac),
    ):
        with pytest.raises(Refused):
            one.who(None, cookie, proof)


@given(st.text(max_size=80), st.text(max_size=80))
def test_no_nonsense_is_a_session(cookie: str, proof: str) -> None:
    """Whatever is sent is refused with a code of ours."""
    one, _ = sessions()
    with pytest.raises(Refused) as caught:
        one.who(None, cookie, proof)
    assert caught.value.code in ("key_missing", "session_ended")
    with pytest.raises(Refused):
        one.who(f"Bearer {cookie}", None, None)
