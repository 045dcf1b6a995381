"""Share tokens: one per envelope and key, and nothing else is taken for one."""

import base64
import hmac

import pytest

from errors import Refused
from gateway.identity.share_tokens import SHARE_ID_CHARS, SHARE_TOKEN_CHARS, ShareTokens, is_share_id
from gateway.limits import PATH_CHARS

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


@pytest.mark.parametrize("envelope_id", [1, ONE, OTHER, 2**63 - 1])
def test_a_share_id_names_its_envelope(envelope_id):
    """It is one text of fixed length in the characters of a link, read back under its key alone."""
    share_id = shares.share_id_of(envelope_id)
    assert len(share_id) == SHARE_ID_CHARS
    assert is_share_id(share_id)
    assert not is_share_id(str(ONE))
    assert shares.read(share_id) == envelope_id
    with pytest.raises(Refused, match="share_id_invalid"):
        ShareTokens("t" * 32).read(share_id)


def test_no_other_text_is_a_share_id():
    """Cut, longer, with any character changed, or in another version: refused in the same words."""
    share_id = shares.share_id_of(ONE)
    wrong = [share_id[:end] for end in range(len(share_id))] + [share_id + "A", share_id + "=", "B" + share_id[1:]]
    for place in range(len(share_id)):
        other = "B" if share_id[place] != "B" else "C"
        wrong.append(share_id[:place] + other + share_id[place + 1 :])
    wrong += [share_id[:-1] + "é", share_id[:-1] + "\ud800", share_id[:-1] + "\n", "A" * 10_000]
    told = set()
    for text in wrong:
        with pytest.raises(Refused) as caught:
            shares.read(text)
        told.add((caught.value.code, caught.value.detail))
    assert {code for code, _ in told} == {"share_id_invalid"}
    assert len(told) == 1


def test_the_path_of_a_share_id_is_remembered():
    """As that of an ID is: an open by a link costs no second look."""
    assert len(f"/v1/envelopes/{shares.share_id_of(ONE)}/cancel") <= PATH_CHARS
