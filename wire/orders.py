"""Order numbers and escrow names, derived from what is paid for: a retry, by any process, has the same number."""

import hashlib
from functools import lru_cache
from struct import Struct

from sharding.ids import slot_of, yymmdd_of

_begun = hashlib.blake2b(digest_size=16, person=b"hongbao-create")
_length = Struct(">I").pack


def payout_order(envelope_id: int, seq: int) -> str:
    """Return the order number of the wallet credit for claim `seq` (a refund is the closing entry's claim)."""
    return f"{envelope_id}.{seq}"  # IDs have 19 digits, the first is never 0


def fund_order(create_key: str) -> str:
    """Return the order number that takes a create's money from the sender's wallet."""
    return f"F{create_key}"


def create_key(sender: str, idempotency_key: str) -> str:
    """Return the 32 hex digits that stand for (sender, idempotency key); fields are length-prefixed."""
    one, two = sender.encode(), idempotency_key.encode()
    digest = _begun.copy()
    digest.update(_length(len(one)) + one + _length(len(two)) + two)
    return digest.hexdigest()


def escrow_account(envelope_id: int) -> str:
    """Name the escrow account of the envelope's slot and business day: `escrow:261121:007`."""
    return _escrow_of(yymmdd_of(envelope_id), slot_of(envelope_id))


@lru_cache(maxsize=4_096)
def _escrow_of(day: int, slot: int) -> str:
    """Cached: thousands of orders share one name."""
    return f"escrow:{day:06d}:{slot:03d}"
