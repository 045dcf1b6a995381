"""Payouts that stand still: what an operator sees of them, and how they are driven again.

A retry keeps the order numbers: whatever had been paid after all is found paid, and nothing is paid twice.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from setnode import queries
from setnode.limits import PAY_BATCH

_STUCK = queries.read("stuck_payouts")
_REDRIVE = queries.read("redrive_payouts")

MOST_SHOWN = 1_000


@dataclass(frozen=True)
class StuckPayout:
    """One order that the wallet refused for good or never answered for. Without a claim there is no amount."""

    envelope_id: int
    seq: int
    receiver: str | None
    amount_fen: int | None
    attempts: int
    stuck_at: datetime
    reason: str


async def stuck_payouts(connection: Any) -> list[StuckPayout]:
    """Return the oldest ones, up to MOST_SHOWN; reads only, so the auditor's role is enough."""
    rows = await connection.fetch(_STUCK, MOST_SHOWN)
    return [
        StuckPayout(
            row["envelope_id"],
            row["seq"],
            row["receiver"],
            row["amount_fen"],
            row["attempts"],
            row["stuck_at"],
            row["reason"],
        )
        for row in rows
    ]


async def redrive(connection: Any, now: datetime, envelope_ids: Sequence[int] | None = None) -> int:
    """Move stuck payouts (of some envelopes, or all) back to the payers in one transaction; returns how many.

    Durable when it returns; a server of the SET takes them up within seconds. Repeating it is harmless.
    """
    ids = None if envelope_ids is None else list(envelope_ids)
    return int(await connection.fetchval(_REDRIVE, ids, now, PAY_BATCH))
