"""Payout intents as Postgres holds them: reading back batches that are not in memory, and deleting finished ones."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from runtime import sql
from setnode.actors.batch import Row
from setnode.partition_ranges import partition_ranges
from setnode.services.payouts.payout_batch import PaidRefund, PayoutBatch, StuckOrder

_PICK = sql.read("setnode", "pick_payouts")
_READ = sql.read("setnode", "read_payouts")
_CLAIMS = sql.read("setnode", "read_claims")
_STUCK = "SELECT coalesce(sum(amount_fen), 0)::bigint FROM payout_stuck"
_FINISH = sql.read("setnode", "finish_payouts")
_DELETE = sql.read("setnode", "delete_intents")

Claims = tuple[list[Row], list[str]]
"""The claims of one intent and the receiver of each, as `PayoutBatch` takes them."""


class Intents(NamedTuple):
    """What `read_intents` found: stuck fen in this SET, how many intents were picked, and the claims of each intent."""

    stuck_fen: int
    picked: int
    claims: dict[int, Claims]


class Pick(NamedTuple):
    """Which intents to pick, as the parameters of `pick_payouts`: `own` picks those of `server` at any age.

    `after`: only newer ones than this batch.
    """

    server: str
    left_before: datetime
    held: list[int]
    limit: int
    own: bool
    after: int = 0


async def read_intents(connection: Any, pick: Pick, again: Sequence[int]) -> Intents:
    """Pick intents; read their claims and those of the batches in `again`, without batches whose row is gone."""
    stuck_fen = await connection.fetchval(_STUCK)
    picked = await connection.fetch(_PICK, *pick)
    batch_ids = [*(row["batch_id"] for row in picked), *again]
    named = await connection.fetch(_READ, batch_ids) if batch_ids else []
    found: dict[int, Claims] = {}
    for intent, row in await _claims_of(connection, named):
        claims, receivers = found.setdefault(intent["batch_id"], ([], []))
        # Payouts do not need the count of shares.
        claims.append((row["envelope_id"], row["seq"], 0, row["kind"], row["user_id"], row["amount_fen"]))
        receivers.append(row["receiver"])
    return Intents(stuck_fen, len(picked), found)


async def finish_intents(
    connection: Any, batches: Sequence[PayoutBatch], stuck: Sequence[StuckOrder], now: datetime
) -> None:
    """Delete the rows of finished batches and write what is stuck, in one transaction.

    It may be repeated after a lost connection; who receives events may hear of a refund twice then.
    """
    refunds = [one for batch in batches for one in batch.refunds]
    if not stuck and not refunds:  # the usual case
        await connection.execute(_DELETE, [batch.batch_id for batch in batches])
        return
    await connection.execute(
        _FINISH,
        [batch.batch_id for batch in batches],
        *_columns(stuck, len(StuckOrder._fields)),
        *_columns(refunds, len(PaidRefund._fields)),
        now,
    )


def _columns(rows: Sequence[tuple[Any, ...]], count: int) -> list[list[Any]]:
    return [[row[number] for row in rows] for number in range(count)]


async def _claims_of(connection: Any, named: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Return (row of `named`, its claim) for each row whose claim exists, in the order of `named`."""
    found: list[tuple[int, Any]] = []
    for part in partition_ranges(row["envelope_id"] for row in named):
        rows = [named[position] for position in part.positions]
        columns = [row["envelope_id"] for row in rows], [row["seq"] for row in rows]
        claims = await connection.fetch(_CLAIMS, *columns, part.slots, part.low, part.end)
        found += [(part.positions[claim["n"] - 1], claim) for claim in claims]
    return [(named[position], claim) for position, claim in sorted(found, key=lambda one: one[0])]
