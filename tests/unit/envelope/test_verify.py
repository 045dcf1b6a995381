"""Verification finds every lie in a closed envelope's detail, and none in an honest one."""

import hashlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envelope.split import Split, amounts, commitment
from envelope.verify import verify
from errors import Refused

SEED = hashlib.sha256(b"verify").digest()


def detail(split=Split.DOUBLE_MEAN, total_fen=2_000, count=20, opened=15, version=2, **bounds):
    """Make an honest detail of an envelope of which `opened` shares were taken before it closed."""
    shares = amounts(split, total_fen, count, SEED, version, **bounds)
    return {
        "envelope_id": "2511210000000001123",
        "split": str(split),
        "split_version": version,
        **bounds,
        "total_fen": total_fen,
        "count": count,
        "split_seed": SEED.hex(),
        "split_commitment": commitment(SEED),
        "claims": [{"seq": seq, "amount_fen": fen, "user": f"u{seq}"} for seq, fen in enumerate(shares[:opened])],
        "refund_fen": sum(shares[opened:]),
        "status": "closed",
    }


@given(st.sampled_from(Split), st.integers(1, 30), st.integers(0, 500), st.data())
def test_honest_details_hold(split, count, spare, data):
    """Whatever was split and however much of it was opened, an honest detail holds."""
    opened = data.draw(st.integers(0, count))
    result = verify(detail(split, count + spare, count, opened))
    assert result.holds
    assert sum(result.amounts_fen) == count + spare


@pytest.mark.parametrize("split", Split)
def test_envelopes_of_version_1_still_hold(split):
    """What was split by the rules of before is verified by them."""
    assert verify(detail(split, 2_000, 20, 7, version=1)).holds


def test_bounds_are_part_of_what_is_verified():
    """An honest detail with bounds holds; with another bound the seed gives other shares, and without them, too."""
    document = detail(Split.BELL, 2_000, 20, 7, min_fen=60, max_fen=130)
    assert verify(document).holds
    assert not verify(lie(document, max_fen=131)).holds
    assert not verify(lie(document, min_fen=None, max_fen=None)).holds


def test_upper_case_hex_and_no_refund_hold():
    """Hex may be of either case, and a detail without a refund is checked for the rest."""
    document = detail()
    document["split_commitment"] = document["split_commitment"].upper()
    del document["refund_fen"]
    assert verify(document).holds


def lie(document, **fields):
    return document | fields


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: lie(d, split_seed=bytes(32).hex()), "SHA-256"),
        (lambda d: lie(d, split_commitment="00" * 32), "commitment was 0000"),
        (lambda d: d["claims"][3].update(amount_fen=d["claims"][3]["amount_fen"] + 1), "Claim 3 got"),
        (lambda d: d["claims"][3].update(seq=20), "Claim 20 does not exist"),
        (lambda d: d["claims"][3].update(seq=-1), "Claim -1 does not exist"),
        (lambda d: d["claims"].append(d["claims"][0]), "Claim 0 is listed twice"),
        (lambda d: d["claims"].pop(0), "Claim 0 is missing"),
        (lambda d: d["claims"].pop(), "The refund is"),
        (lambda d: lie(d, refund_fen=d["refund_fen"] + 1), "The refund is"),
        (lambda d: d["claims"][0].update(amount_fen=10**9), "take more than the total"),
        (lambda d: lie(d, total_fen=2_001), "Claim 0 got"),
        (lambda d: lie(d, split="bell"), "Claim 0 got"),
    ],
)
def test_every_lie_is_found(change, words):
    """Each changed field is a mismatch that says what does not agree."""
    document = detail()
    changed = change(document)
    result = verify(changed if isinstance(changed, dict) and "split_seed" in changed else document)
    assert not result.holds
    assert any(words in sentence for sentence in result.mismatches)


def test_amounts_are_told_in_yuan():
    """People read yuan everywhere; an amount that cannot be one is told by its size."""
    document = detail()
    document["claims"][0]["amount_fen"] = 123_456
    first, refund = verify(document).mismatches
    assert re.fullmatch(r"Claim 0 got 1234\.56 yuan, but the seed gives [0-9]+\.[0-9]{2} yuan\.", first)
    assert re.search(r"^The refund is [0-9]+\.[0-9]{2} yuan, ", refund)
    assert "a number of 33220 bits, in fen" in verify(lie(detail(), refund_fen=10**10_000)).mismatches[0]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"split_seed": None}, "malformed_document"),
        ({"split_seed": "not hex"}, "malformed_document"),
        ({"split_seed": "00"}, "malformed_seed"),
        ({"split": "best_friends_first"}, "malformed_document"),
        ({"split_version": 99}, "unknown_split_version"),
        ({"total_fen": "2000"}, "malformed_document"),
        ({"total_fen": 3}, "count_out_of_range"),
        ({"claims": None}, "malformed_document"),
        ({"claims": [1]}, "malformed_document"),
        ({"claims": [{"seq": True, "amount_fen": 1}]}, "malformed_document"),
        ({"envelope_id": 1}, "malformed_document"),
    ],
)
def test_what_cannot_be_read_is_refused(fields, code):
    """A document that is no detail of a closed envelope is refused, not called a lie."""
    with pytest.raises(Refused) as caught:
        verify(detail() | fields)
    assert caught.value.code == code
