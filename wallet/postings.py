"""Postings (one movement of money each), the record of a create, and how accounts are named."""

from enum import IntEnum, StrEnum

import msgspec

OUTSIDE = "outside"
"""The account that deposits come from; the only one that may be negative."""
PROVIDER = "channel:provider"
"""The account credited with what the outside provider has paid to users."""


class TransferKind(IntEnum):
    """Why money moved; `transfer.kind`."""

    DEPOSIT = 0
    FUND = 1
    CLAIM = 2
    REFUND = 3


class EntryKind(StrEnum):
    """Kind of an entry in a user's history, as the API names it. CLAIM_OUTSIDE does not change the balance."""

    DEPOSIT = "deposit"
    FUND = "fund"
    CLAIM = "claim"
    REFUND = "refund"
    CLAIM_OUTSIDE = "claim_outside"


class AccountKind(IntEnum):
    """`account.kind`. Users and escrows are never negative; a CHECK holds it."""

    USER = 0
    ESCROW = 1
    OUTSIDE = 2
    CHANNEL = 3


class Posting(msgspec.Struct, frozen=True, order=True, gc=False):
    """Moves `amount_fen` from `debit` to `credit` under `order_no`.

    `debit`, `credit` and `user` are names of accounts; the history of `user` shows the posting. `kind`: TransferKind.
    """

    order_no: str
    kind: int
    debit: str
    credit: str
    user: str
    amount_fen: int
    envelope_id: int | None

    def same_order(self, other: "Posting") -> bool:
        """Say whether `other` is a repeat of this order; the channel it was paid through does not matter."""
        return (
            self.amount_fen == other.amount_fen
            and self.user == other.user
            and self.envelope_id == other.envelope_id
            and self.kind == other.kind
        )


class FundRow(msgspec.Struct, frozen=True, gc=False):
    """The record that makes a create idempotent; `user` is the name of the sender's account.

    `header_hash` is the hash of the envelope's header, `draft` what a repeat needs to make the same header (opaque).
    """

    create_key: str
    fingerprint: str
    user: str
    total_fen: int
    envelope_id: int
    header_hash: bytes
    draft: bytes


def user_account(user: str) -> str:
    """Return the name of the account of `user`."""
    return "user:" + user


def account_kind(name: str) -> AccountKind:
    """Return the kind that a name stands for (the schema's CHECK holds the same rule)."""
    if name.startswith("user:"):
        return AccountKind.USER
    if name.startswith("escrow:"):
        return AccountKind.ESCROW
    return AccountKind.OUTSIDE if name == OUTSIDE else AccountKind.CHANNEL
