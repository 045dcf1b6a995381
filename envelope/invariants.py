"""Named checks of DESIGN section 6 that concern one envelope; each raises InvariantBroken.

They are called after every decision, after every read-back from the database, in tests and by the audit. They use
an explicit raise because `python -O` drops `assert`.
"""

from typing import TYPE_CHECKING

from envelope.errors import InvariantBroken
from envelope.outcomes import Entry

if TYPE_CHECKING:
    from envelope.claim_log import ClaimLog


def may_append(log: "ClaimLog", user: str, seq: int) -> None:
    """No envelope has more claims than shares, no user two, and none after the closing entry."""
    if log.closing is not None or seq >= log.terms.count or user in log.winners or not user:
        raise InvariantBroken(
            "claims_within_shares",
            f"envelope {log.terms.envelope_id}: claim {seq} of {log.terms.count} by {user!r} must not be",
        )


def may_close(log: "ClaimLog") -> None:
    """An envelope is closed once, and only while something is left to give back."""
    if log.closing is not None or log.left_fen < 1:
        raise InvariantBroken("closed_once", f"envelope {log.terms.envelope_id}: nothing is left to close")


def follows(log: "ClaimLog", seq: int, kind: str, amount_fen: int) -> None:
    """A stored entry has the next seq and exactly the amount that the seed (or the remainder) gives."""
    closed = log.closing is not None
    expected_seq = len(log.winners) + closed
    if closed or seq != expected_seq or seq >= log.terms.count:
        raise InvariantBroken(
            "log_is_dense", f"envelope {log.terms.envelope_id}: entry {seq} stands where {expected_seq} belongs"
        )
    expected = log.amounts[seq] if kind == Entry.OPEN else log.left_fen
    if amount_fen != expected:
        raise InvariantBroken(
            "amount_follows_seed",
            f"envelope {log.terms.envelope_id}: entry {seq} holds {amount_fen} fen where the split gives {expected}",
        )


def balanced(log: "ClaimLog") -> None:
    """Paid in = claimed + refunded + still open."""
    claimed = sum(log.amounts[: len(log.winners)])
    refunded = 0 if log.closing is None else log.closing.amount_fen
    if claimed + refunded + log.left_fen != log.terms.total_fen or log.left_fen < 0:
        raise InvariantBroken(
            "paid_in_is_accounted_for",
            f"envelope {log.terms.envelope_id}: {claimed} claimed + {refunded} refunded + {log.left_fen} open "
            f"is not {log.terms.total_fen}",
        )
