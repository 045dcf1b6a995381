"""Share tokens: one per envelope and key, and nothing else is taken for one."""

import base64
import hmac

import pytest

from gateway.identity.share_tokens import SHARE_TOKEN_CHARS, ShareTokens

ONE, OTHER = 2611211234567890007, 2611211234567890008
shares = ShareTokens("s" * 32)


def test_a_token_opens_its_envelope_only():
    """The token of one envelope is good for it, under its key, and for no other."""
    token = shares.token_of(ONE)
    assert len(token) == SHARE_TOKEN_CHARS
    assert shares.is_valid(ONE, token)
    assert not shares.is_valid(OTHER, token)
    assert not ShareTokens("t" * 32).is_valid(ONE, token)


@pytest.mark.parametrize("given", [None, "", "x", "é" * 22, "\ud800", "A" * 22, "A" * 10_000, "\0"])
def test_what_is_no_token(given):
    """Anything else is wrong, and not an error."""
    assert not shares.is_valid(ONE, given)


@pytest.mark.parametrize("secret", ["s" * 32, "s" * 64, "ü" * 64, "s" * 65, "s" * 1000, "\0", ""])
def test_tokens_never_change(secret):
    """HMAC-SHA256 of the 19 digits, as the standard library has it, whatever the length of the key."""
    made = ShareTokens(secret)
    for envelope_id in (ONE, OTHER, 1, 2**63 - 1):
        mac = hmac.digest(secret.encode(), b"%019d" % envelope_id, "sha256")
        assert made.token_of(envelope_id) == base64.urlsafe_b64encode(mac[:16]).rstrip(b"=").decode()


def test_a_changed_character_is_wrong():
    """Every character counts."""
    token = shares.token_of(ONE)
    for place in range(len(token)):
        other = "A" if token[place] != "A" else "B"
        assert not shares.is_valid(ONE, token[:place] + other + token[place + 1 :])
