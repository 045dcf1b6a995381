"""Sums of one day of a database from the logs of its envelopes, as the register keeps them."""

from dataclasses import dataclass

from envelope.claim_log import ClaimLog


@dataclass
class DaySums:
    """One database's day, in rows and fen; `claims` counts the closing entries too, as the register does."""

    envelopes: int = 0
    claims: int = 0
    paid_in_fen: int = 0
    claimed_fen: int = 0
    refunded_fen: int = 0

    def add(self, log: ClaimLog) -> None:
        """Add an envelope; what is left in an open one is neither claimed nor refunded."""
        refunded = 0 if log.closing is None else log.closing.amount_fen
        self.envelopes += 1
        self.claims += len(log.winners) + (log.closing is not None)
        self.paid_in_fen += log.terms.total_fen
        self.refunded_fen += refunded
        self.claimed_fen += log.terms.total_fen - refunded - log.left_fen

    def __str__(self) -> str:
        """Return the sums as a violation quotes them."""
        return (
            f"{self.envelopes} envelopes, {self.claims} claims, "
            f"{self.paid_in_fen} fen = {self.claimed_fen} + {self.refunded_fen}"
        )
