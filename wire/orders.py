"""Order numbers: made before the money moves, derived from what they pay for, so that a retry cannot mint a new one."""

import hashlib
from functools import lru_cache
from struct import Struct

from sharding.ids import IDS_PER_DAY
from sharding.slots import MAX_SLOTS

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
    return _escrow_of(envelope_id // IDS_PER_DAY, envelope_id % MAX_SLOTS)


@lru_cache(maxsize=4_096)
def _escrow_of(day: int, slot: int) -> str:
    """Return a name that thousands of orders share; to write it each time took a tenth of deciding a payout."""
    return f"escrow:{day:06d}:{slot:03d}"
