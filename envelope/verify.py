"""Verifies a closed envelope from its published detail alone: every amount must be the one that the seed gives.

The commitment (the seed's hash) is published before the first open, the seed after the close. So not even the operator
can choose an amount by who opens: anybody who has the JSON can recompute each amount, with this code or their own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from envelope.money import brief, yuan
from envelope.split import Split, amounts, commitment
from errors import Refused

_WRITABLE_FEN = 10**20
_BOUNDS = ("min_fen", "max_fen")


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of `verify`. `amounts_fen` are all shares as recomputed, by seq; each mismatch is one sentence."""

    envelope_id: str
    split: Split
    amounts_fen: tuple[int, ...]
    mismatches: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether every amount in the document is the one that its seed gives."""
        return not self.mismatches


def verify(document: Mapping[str, object]) -> Verification:
    """Recompute the envelope that a JSON detail describes, and report every difference.

    Reads envelope_id, split, split_version, total_fen, count, split_seed and split_commitment (hex), claims
    (a list of {seq, amount_fen}) and, if present, min_fen, max_fen and refund_fen; other fields are ignored.
    Each difference becomes a sentence in `mismatches`. A document that cannot be read raises Refused
    `malformed_document` (a field is missing or mistyped; no seed because the envelope is not closed yet), or
    the code with which `amounts` refuses such a total, count or version.
    """
    split = _split(document)
    seed = _seed(document)
    total_fen, count = _integer(document, "total_fen"), _integer(document, "count")
    least, most = (_integer(document, name) if document.get(name) is not None else None for name in _BOUNDS)
    shares = amounts(split, total_fen, count, seed, _integer(document, "split_version"), min_fen=least, max_fen=most)
    claims = [(_integer(claim, "seq"), _integer(claim, "amount_fen")) for claim in _claims(document)]
    found = [
        *_check_commitment(seed, _text(document, "split_commitment")),
        *_check_claims(claims, shares),
    ]
    if document.get("refund_fen") is not None:
        found += _check_refund(_integer(document, "refund_fen"), total_fen, claims)
    return Verification(_text(document, "envelope_id"), split, tuple(shares), tuple(found))


def _check_commitment(seed: bytes, published: str) -> list[str]:
    if commitment(seed) == published.lower():
        return []
    return [f"The seed's SHA-256 is {commitment(seed)}, but the commitment was {published}."]


def _check_claims(claims: Sequence[tuple[int, int]], shares: Sequence[int]) -> list[str]:
    found = []
    seen = set()
    for seq, amount_fen in claims:
        if not 0 <= seq < len(shares):
            found.append(f"Claim {brief(seq)} does not exist, the shares are 0 to {len(shares) - 1}.")
        elif seq in seen:
            found.append(f"Claim {seq} is listed twice.")
        elif amount_fen != shares[seq]:
            found.append(f"Claim {seq} got {_yuan(amount_fen)}, but the seed gives {_yuan(shares[seq])}.")
        seen.add(seq)
    # Shares are opened in the order of seq, so a gap is a claim that the document omits.
    missing = [seq for seq in range(min(len(claims), len(shares))) if seq not in seen]
    found += [f"Claim {seq} is missing, but later ones are listed." for seq in missing]
    return found


def _check_refund(refund_fen: int, total_fen: int, claims: Sequence[tuple[int, int]]) -> list[str]:
    rest_fen = total_fen - sum(amount_fen for _, amount_fen in claims)
    if refund_fen == rest_fen:
        return []
    if abs(rest_fen) < total_fen:
        return [f"The refund is {_yuan(refund_fen)}, but {_yuan(rest_fen)} were left."]
    return [f"The refund is {_yuan(refund_fen)}, but the claims take more than the total."]


def _yuan(fen: int) -> str:
    """Write an amount for people; a document may contain a number of a million digits."""
    return f"{yuan(fen)} yuan" if abs(fen) < _WRITABLE_FEN else f"{brief(fen)}, in fen"


def _split(document: Mapping[str, object]) -> Split:
    name = _text(document, "split")
    try:
        return Split(name)
    except ValueError:
        raise _malformed("split is none of " + ", ".join(Split)) from None


def _seed(document: Mapping[str, object]) -> bytes:
    if document.get("split_seed") is None:
        raise _malformed("split_seed is missing; it is published when the envelope is closed")
    try:
        return bytes.fromhex(_text(document, "split_seed"))
    except ValueError:
        raise _malformed("split_seed is not hex") from None


def _claims(document: Mapping[str, object]) -> list[Mapping[str, object]]:
    claims = document.get("claims")
    if not isinstance(claims, list) or not all(isinstance(claim, Mapping) for claim in claims):
        raise _malformed("claims must be a list of objects")
    return claims


def _integer(fields: Mapping[str, object], name: str) -> int:
    value = fields.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise _malformed(f"{name} must be a whole number")
    return value


def _text(fields: Mapping[str, object], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise _malformed(f"{name} must be a string")
    return value


def _malformed(sentence: str) -> Refused:
    return Refused("malformed_document", f"This is not the detail of a closed envelope: {sentence}.")
