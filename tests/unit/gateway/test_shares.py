"""Share tokens: one per envelope and key, and nothing else is taken for one."""

import pytest

from gateway.identity.shares import TOKEN_CHARS, Shares

ONE, OTHER = 2611211234567890007, 2611211234567890008
shares = Shares("s" * 32)


def test_a_token_opens_its_envelope_only():
    """The token of one envelope is good for it, under its key, and for no other."""
    token = shares.token_of(ONE)
    assert len(token) == TOKEN_CHARS
    assert shares.holds(ONE, token)
    assert not shares.holds(OTHER, token)
    assert not Shares("t" * 32).holds(ONE, token)


@pytest.mark.parametrize("given", [None, "", "x", "é" * 22, "\ud800", "A" * 22, "A" * 10_000, "\0"])
def test_what_is_no_token(given):
    """Anything else is wrong, and not an error."""
    assert not shares.holds(ONE, given)


def test_a_changed_character_is_wrong():
    """Every character counts."""
    token = shares.token_of(ONE)
    for place in range(len(token)):
        other = "A" if token[place] != "A" else "B"
        assert not shares.holds(ONE, token[:place] + other + token[place + 1 :])
