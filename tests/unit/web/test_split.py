"""The page recomputes a split by formulas of its own: they must be those of `envelope.split`, to the fen."""

import hashlib
import random

import pytest

from envelope.split import Split, amounts, commitment
from envelope.split.ways import check_bounds
from envelope.verify import verify
from errors import Refused
from tests.unit.web.node import run

CASES = 400


def some_terms(rng: random.Random) -> dict:
    """Terms of an envelope that can exist: small, large and extreme ones, of both versions, with and without bounds."""
    split, version = rng.choice(list(Split)), rng.choice([1, 2, 2, 2])
    count = rng.choice([1, 2, 3, rng.randint(1, 30), rng.randint(1, 300)])
    total = min(
        100_000_000, count + rng.choice([0, 1, rng.randint(0, 50), rng.randint(0, 20_000), rng.randint(0, 10**8)])
    )
    terms = {"split": split.value, "split_version": version, "total_fen": total, "count": count}
    mean = total // count
    if split is not Split.EQUAL and version == 2 and rng.random() < 0.6:
        bounds = {}
        if rng.random() < 0.7:
            bounds["min_fen"] = rng.randint(1, max(1, mean))
        if rng.random() < 0.7:
            bounds["max_fen"] = rng.randint(mean + 1, max(mean + 1, rng.choice([mean + 3, 2 * mean, 5 * mean])))
        try:
            check_bounds(total, count, bounds.get("min_fen"), bounds.get("max_fen"))
            terms |= bounds
        except Refused:
            pass
    return {**terms, "seed": rng.randbytes(32).hex()}


def ours(terms: dict) -> list[int]:
    return amounts(
        Split(terms["split"]),
        terms["total_fen"],
        terms["count"],
        bytes.fromhex(terms["seed"]),
        terms["split_version"],
        min_fen=terms.get("min_fen"),
        max_fen=terms.get("max_fen"),
    )


def test_both_cut_alike() -> None:
    """On many random envelopes the page's shares are those of the server."""
    seed = random.SystemRandom().getrandbits(32)
    rng = random.Random(seed)
    cases = [some_terms(rng) for _ in range(CASES)]
    cases.append({"split": "double_mean", "split_version": 2, "total_fen": 10**8, "count": 10_000, "seed": "00" * 32})
    theirs = run(
        """
        const { amounts } = await web('split/ways.js');
        const { fromHex } = await web('split/verify.js');
        say(input.map((terms) => amounts(terms, fromHex(terms.seed))));
        """,
        cases,
    )
    assert isinstance(theirs, list)
    for terms, shares in zip(cases, theirs, strict=True):
        assert shares == ours(terms), (seed, terms)
    assert {one["split"] for one in cases} == set(Split)
    assert sum("max_fen" in one for one in cases) > CASES // 20


def test_hashes() -> None:
    """SHA-256 and SHAKE-256 of the page are those of the standard library, at every length around a block."""
    texts = [bytes(range(256)) * 3][0]
    messages = [texts[:length].hex() for length in (0, 1, 31, 32, 55, 56, 63, 64, 65, 119, 135, 136, 137, 272, 700)]
    found = run(
        """
        const { sha256 } = await web('split/sha256.js');
        const { Shake256 } = await web('split/shake256.js');
        const { fromHex } = await web('split/verify.js');
        const hex = (shake) => Array.from({ length: 500 }, () => shake.byte().toString(16).padStart(2, '0')).join('');
        say(input.map((text) => [sha256(fromHex(text)), hex(new Shake256(fromHex(text)))]));
        """,
        messages,
    )
    assert found == [
        [hashlib.sha256(one).hexdigest(), hashlib.shake_256(one).hexdigest(500)] for one in map(bytes.fromhex, messages)
    ]


def closed(opened: int) -> dict:
    seed = bytes(range(32))
    shares = amounts(Split.DOUBLE_MEAN, 2000, 5, seed)
    claims = [{"seq": seq, "amount_fen": shares[seq]} for seq in range(opened)]
    return {
        "envelope_id": "2611210000000000007", "split": "double_mean", "split_version": 2, "total_fen": 2000, "count": 5,
        "split_seed": seed.hex(), "split_commitment": commitment(seed), "claims": claims,
        "refund_fen": 2000 - sum(shares[:opened]),
    }  # fmt: skip


def forged() -> list[dict]:
    """One right envelope of each kind, then each thing that can be wrong."""
    whole = closed(5)
    claims = whole["claims"]
    return [
        whole,
        closed(2),
        closed(0),
        {**whole, "split_commitment": "0" * 64},
        {**whole, "claims": [{**claims[0], "amount_fen": claims[0]["amount_fen"] + 1}, *claims[1:]]},
        {**whole, "claims": [claims[0], claims[0], *claims[2:]]},
        {**whole, "claims": claims[1:], "refund_fen": claims[0]["amount_fen"]},
        {**whole, "refund_fen": 1},
        {**whole, "claims": [*claims, {"seq": 5, "amount_fen": 1}], "refund_fen": -1},
    ]


@pytest.mark.parametrize("which", range(9))
def test_both_find_the_same_fault(which: int) -> None:
    """What `hongbao verify-split` accepts the page accepts, and what it names wrong the page names wrong."""
    document = forged()[which]
    found = run("const { verify } = await web('split/verify.js'); say(verify(input).mismatches)", document)
    assert isinstance(found, list)
    assert bool(found) is not verify(document).holds
    assert bool(found) is (which >= 3)
