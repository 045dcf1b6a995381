"""The ways to split by name, the function that calls them, and the check of their result that no way can skip."""

import hashlib
from enum import StrEnum

from envelope.money import brief, check_fen, yuan
from envelope.split import bell, double_mean, double_mean_narrow, equal, line_segments
from envelope.split.stream import SEED_BYTES, Stream
from errors import InvariantBroken, Refused

# Raised when a formula or the derivation changes; old envelopes keep the version they were made with.
SPLIT_VERSION = 1


class Split(StrEnum):
    """A way to cut a total into shares. The value stands in the API, the database and the derivation."""

    EQUAL = "equal"
    DOUBLE_MEAN = "double_mean"
    DOUBLE_MEAN_NARROW = "double_mean_narrow"
    LINE_SEGMENTS = "line_segments"
    BELL = "bell"


_DRAWN_WAYS = {
    Split.DOUBLE_MEAN: double_mean.split,
    Split.DOUBLE_MEAN_NARROW: double_mean_narrow.split,
    Split.LINE_SEGMENTS: line_segments.split,
    Split.BELL: bell.split,
}


def amounts(split: Split, total_fen: int, count: int, seed: bytes, version: int = SPLIT_VERSION) -> list[int]:
    """Return the `count` shares of an envelope in fen, in the order of opening (index = seq).

    Deterministic: the same arguments give the same list for ever. The sum is `total_fen` and every share
    at least 1. `seed` has 32 bytes and stays secret until the envelope is closed; EQUAL ignores its value.
    Raises Refused: `malformed_amount`, `amount_out_of_range`, `count_out_of_range` (under 1, or more
    shares than fen), `malformed_seed`, `unknown_split_version`; InvariantBroken if a way returns anything
    else.
    """
    if version != SPLIT_VERSION:
        raise Refused("unknown_split_version", f"Split version {brief(version)} is unknown, known is {SPLIT_VERSION}.")
    check_fen(total_fen, name="total_fen")
    if not 1 <= count <= total_fen:
        raise Refused(
            "count_out_of_range",
            f"{yuan(total_fen)} yuan can be cut into 1 to {total_fen} shares, not {brief(count)}.",
        )
    if len(seed) != SEED_BYTES:
        raise Refused("malformed_seed", f"A split seed has {SEED_BYTES} bytes, not {len(seed)}.")
    if split is Split.EQUAL:
        shares = equal.split(total_fen, count)
    else:
        stream = Stream(seed, version=version, split=split.value, total_fen=total_fen, count=count, expect=count + 1)
        shares = _DRAWN_WAYS[split](total_fen, count, stream)
    check_shares(shares, total_fen, count)
    return shares


def check_shares(shares: list[int], total_fen: int, count: int) -> None:
    """Raise InvariantBroken("shares_make_the_total") unless `count` shares >= 1 fen sum to the total."""
    if len(shares) == count and sum(shares) == total_fen and min(shares) >= 1:
        return
    least = min(shares, default=0)
    raise InvariantBroken(
        "shares_make_the_total",
        f"{len(shares)} shares of {count}, sum {sum(shares)} of {total_fen} fen, least {least}",
    )


def commitment(seed: bytes) -> str:
    """Return the lower-case hex SHA-256 of the seed: published at creation, proven after close."""
    return hashlib.sha256(seed).hexdigest()
