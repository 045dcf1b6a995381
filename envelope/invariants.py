"""Invariants of one envelope as named checks; each raises InvariantBroken with its name.

Where each is called: `may_append`, `beyond_total`, `may_close` before a `ClaimLog` changes; `follows` for every entry
that is read back from the database, `balanced` once at the end of that read. The audit compares the same facts by its
own code and SQL. `balanced` is not called after an open: it walks all shares. The checks raise explicitly because
`python -O` drops `assert`.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from envelope.closing import Closing
from envelope.outcomes import Entry
from envelope.terms import Terms
from errors import InvariantBroken


class LogState(Protocol):
    """What the checks read of a claim log."""

    @property
    def terms(self) -> Terms:
        """What the sender fixed at creation."""

    @property
    def winners(self) -> Mapping[str, int]:
        """The seq of each user who holds a share."""

    @property
    def closing(self) -> Closing | None:
        """The closing entry, if there is one."""

    @property
    def left_fen(self) -> int:
        """What is neither claimed nor returned."""

    @property
    def amounts(self) -> Sequence[int]:
        """The share of every seq, in fen."""


def may_append(log: LogState, user: str, seq: int) -> None:
    """An envelope has no more claims than shares, at most one for each user, and none after the closing entry."""
    if log.closing is not None or seq >= log.terms.count or user in log.winners or not user:
        raise InvariantBroken(
            "claims_within_shares",
            f"envelope {log.terms.envelope_id}: claim {seq} of {log.terms.count} shares by {user!r} is not allowed",
        )


def beyond_total(log: LogState, seq: int) -> InvariantBroken:
    """Shares never add up to more than the total, and the last takes exactly the rest: the error where they do not."""
    return InvariantBroken(
        "shares_are_the_total",
        f"envelope {log.terms.envelope_id}: share {seq} of {log.terms.count} holds {log.amounts[seq]} fen, "
        f"{log.left_fen} are left",
    )


def may_close(log: LogState) -> None:
    """An envelope is closed at most once, and only while at least one fen is left to return."""
    if log.closing is not None or log.left_fen < 1:
        raise InvariantBroken(
            "closed_once", f"envelope {log.terms.envelope_id}: it is closed already, or nothing is left to return"
        )


def follows(log: LogState, seq: int, kind: str, amount_fen: int) -> None:
    """A stored entry has the next seq and exactly the amount that the seed (or the remainder) gives."""
    closed = log.closing is not None
    expected_seq = len(log.winners) + closed
    if closed or seq != expected_seq or seq >= log.terms.count:
        raise InvariantBroken(
            "log_is_dense", f"envelope {log.terms.envelope_id}: the stored entry has seq {seq}, expected {expected_seq}"
        )
    expected = log.amounts[seq] if kind == Entry.OPEN else log.left_fen
    if amount_fen != expected:
        raise InvariantBroken(
            "amount_follows_seed",
            f"envelope {log.terms.envelope_id}: entry {seq} holds {amount_fen} fen where the split gives {expected}",
        )


def balanced(log: LogState) -> None:
    """Paid in = claimed + refunded + still open."""
    # The shares of an envelope without opens need not be drawn for this.
    claimed = sum(log.amounts[: len(log.winners)]) if log.winners else 0
    refunded = 0 if log.closing is None else log.closing.amount_fen
    if claimed + refunded + log.left_fen != log.terms.total_fen or log.left_fen < 0:
        raise InvariantBroken(
            "paid_in_is_accounted_for",
            f"envelope {log.terms.envelope_id}: {claimed} claimed + {refunded} refunded + {log.left_fen} open "
            f"is not {log.terms.total_fen}",
        )
