"""The ways to split by name, the function that calls them, and the check of their result that no way can skip."""

import hashlib
from enum import StrEnum

from envelope.money import brief, check_fen, yuan
from envelope.split import bell, double_mean, double_mean_narrow, equal, line_segments
from envelope.split.stream import SEED_BYTES, Stream
from errors import InvariantBroken, Refused

SPLIT_VERSION = 2
"""Raised when a formula or the derivation changes; old envelopes keep the version they were made with.

Version 1 had no bounds, another DOUBLE_MEAN_NARROW, and a derivation without the bounds.
"""


class Split(StrEnum):
    """A way to cut a total into shares. The value stands in the API, the database and the derivation."""

    EQUAL = "equal"
    DOUBLE_MEAN = "double_mean"
    DOUBLE_MEAN_NARROW = "double_mean_narrow"
    LINE_SEGMENTS = "line_segments"
    BELL = "bell"


_VERSION_1 = {
    Split.DOUBLE_MEAN: double_mean.split,
    Split.DOUBLE_MEAN_NARROW: double_mean_narrow.split_version_1,
    Split.LINE_SEGMENTS: line_segments.split,
    Split.BELL: bell.split,
}
_VERSION_2 = {
    Split.DOUBLE_MEAN: double_mean.split_within,
    Split.DOUBLE_MEAN_NARROW: double_mean_narrow.split_within,
    Split.LINE_SEGMENTS: line_segments.split_within,
    Split.BELL: bell.split_within,
}


def amounts(
    split: Split,
    total_fen: int,
    count: int,
    seed: bytes,
    version: int = SPLIT_VERSION,
    *,
    min_fen: int | None = None,
    max_fen: int | None = None,
) -> list[int]:
    """Return the `count` shares of an envelope in fen, in the order of opening (index = seq).

    Deterministic: the same arguments give the same list for ever. The sum is `total_fen` and every share
    at least `min_fen` (None: 1) and at most `max_fen` (None: no bound). `seed` has 32 bytes and stays secret until
    the envelope is closed; EQUAL ignores its value. Raises Refused: `malformed_amount`, `amount_out_of_range`,
    `count_out_of_range` (under 1, or more shares than fen), `bounds_not_possible`, `bounds_not_for_kind` (EQUAL, or
    version 1), `malformed_seed`, `unknown_split_version`; InvariantBroken if a way returns anything else.
    """
    if version not in (1, SPLIT_VERSION):
        known = f"known are 1 to {SPLIT_VERSION}"
        raise Refused("unknown_split_version", f"Split version {brief(version)} is unknown, {known}.")
    check_fen(total_fen, name="total_fen")
    if not 1 <= count <= total_fen:
        raise Refused(
            "count_out_of_range",
            f"{yuan(total_fen)} yuan can be cut into 1 to {total_fen} shares, not {brief(count)}.",
        )
    if len(seed) != SEED_BYTES:
        raise Refused("malformed_seed", f"A split seed has {SEED_BYTES} bytes, not {len(seed)}.")
    if min_fen is not None or max_fen is not None:
        if split is Split.EQUAL or version == 1:
            raise Refused("bounds_not_for_kind", "Only shares that are drawn have bounds, from split version 2 on.")
        check_bounds(total_fen, count, min_fen, max_fen)
    if split is Split.EQUAL:
        shares = equal.split(total_fen, count)
    elif version == 1:
        stream = Stream(seed, f"1/{split.value}/{total_fen}/{count}", expect=count + 1)
        shares = _VERSION_1[split](total_fen, count, stream)
    else:
        bounds = f"{min_fen or ''}/{max_fen or ''}"
        stream = Stream(seed, f"{version}/{split.value}/{total_fen}/{count}/{bounds}", expect=count + 1)
        shares = _VERSION_2[split](total_fen, count, stream, min_fen=min_fen or 1, max_fen=max_fen)
    check_shares(shares, total_fen, count, min_fen or 1, max_fen)
    return shares


def check_bounds(total_fen: int, count: int, min_fen: int | None, max_fen: int | None) -> None:
    """Raise Refused `bounds_not_possible` unless `count` shares within the bounds can make the total."""
    least, most = 1 if min_fen is None else min_fen, total_fen if max_fen is None else max_fen
    if least < 1 or most < least:
        why = f"a share from {brief(least)} to {brief(most)} fen does not exist"
    elif least * count > total_fen:
        why = f"{count} shares of at least {brief(least)} fen need {brief(least * count)}, and there are {total_fen}"
    elif most * count < total_fen:
        why = f"{count} shares of at most {brief(most)} fen make {brief(most * count)}, and there are {total_fen}"
    else:
        return
    raise Refused("bounds_not_possible", f"{why[0].upper()}{why[1:]}.")


def check_shares(shares: list[int], total_fen: int, count: int, min_fen: int = 1, max_fen: int | None = None) -> None:
    """Raise InvariantBroken("shares_make_the_total") unless `count` shares within the bounds sum to the total."""
    least, most = min(shares, default=0), max(shares, default=0)
    if len(shares) == count and sum(shares) == total_fen and least >= min_fen and (max_fen is None or most <= max_fen):
        return
    raise InvariantBroken(
        "shares_make_the_total",
        f"{len(shares)} shares of {count}, sum {sum(shares)} of {total_fen} fen, from {least} to {most}",
    )


def commitment(seed: bytes) -> str:
    """Return the lower-case hex SHA-256 of the seed: published at creation, proven after close."""
    return hashlib.sha256(seed).hexdigest()
