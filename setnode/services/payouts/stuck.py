"""Stuck payouts: what an operator sees of them, and how they are given back to the payers (redrive).

A redrive keeps the order numbers: an order that was paid after all is found paid, and nothing is paid twice.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from runtime import sql
from setnode.limits import PAY_BATCH, STUCK_SHOWN
from sharding.ids import slot_of

_STUCK = sql.read("setnode", "stuck_payouts")
_RECEIVER = sql.read("setnode", "stuck_receiver")
_REDRIVE = sql.read("setnode", "redrive_payouts")


@dataclass(frozen=True)
class StuckPayout:
    """An order that the wallet refused, or gave no final result for. Receiver and amount are None without a claim."""

    envelope_id: int
    seq: int
    receiver: str | None
    amount_fen: int | None
    attempts: int
    stuck_at: datetime
    reason: str


async def count_stuck(connection: Any) -> int:
    """Return how many payouts are stuck; the auditor's role is enough."""
    return int(await connection.fetchval("SELECT count(*) FROM payout_stuck"))


async def stuck_payouts(connection: Any) -> list[StuckPayout]:
    """Return the oldest stuck payouts, up to STUCK_SHOWN. It only reads, so the auditor's role is enough."""
    rows = await connection.fetch(_STUCK, STUCK_SHOWN)
    if not rows:
        return []
    async with connection.transaction(readonly=True):
        # A generic plan would be one for all days of the SET.
        await connection.execute("SET LOCAL plan_cache_mode = force_custom_plan")
        return [await _with_receiver(connection, row) for row in rows]


async def _with_receiver(connection: Any, row: Any) -> StuckPayout:
    envelope_id: int = row["envelope_id"]
    claim = await connection.fetchrow(_RECEIVER, envelope_id, slot_of(envelope_id), row["seq"])
    receiver, amount_fen = (None, None) if claim is None else (claim["receiver"], claim["amount_fen"])
    return StuckPayout(envelope_id, row["seq"], receiver, amount_fen, row["attempts"], row["stuck_at"], row["reason"])


async def redrive(connection: Any, now: datetime, envelope_ids: Sequence[int] | None = None) -> int:
    """Give stuck payouts (of some envelopes, or all) back to the payers, in one transaction; returns how many.

    Durable when it returns; a server of the SET takes them up within seconds. Repeating it is harmless.
    """
    ids = None if envelope_ids is None else list(envelope_ids)
    return int(await connection.fetchval(_REDRIVE, ids, now, PAY_BATCH))
