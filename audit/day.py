"""The proof of one business day of one SET: every envelope replays, every fund and credit has its counterpart."""

from collections.abc import Callable, Collection, MutableMapping
from contextlib import AsyncExitStack
from datetime import date
from typing import Any

from audit import queries
from audit.cut import Piece, Rows, from_postgres
from audit.envelopes import replay
from audit.matching import InFlight, match_credits, match_fund, orphan_fund
from audit.ordered import Ordered
from audit.report import Report
from envelope.claim_log import ClaimLog
from runtime import postgres
from sharding.ids import end_id, first_id

_PAYOUTS = queries.read("payouts")
_FUNDS = queries.read("funds")


async def snapshot(stack: AsyncExitStack, dsn: str) -> Any:
    """Open a connection whose one transaction sees the database as it is now; closed with the stack."""
    connection = await postgres.connect(dsn, plan_cache_mode="force_custom_plan")
    stack.push_async_callback(connection.close, timeout=2.0)
    await freeze(stack, connection)
    return connection


async def freeze(stack: AsyncExitStack, connection: Any) -> None:
    """Let a connection see the database as it is now until the stack is left."""
    await stack.enter_async_context(connection.transaction(isolation="repeatable_read", readonly=True))
    await connection.fetchval("SELECT 1")  # the snapshot is taken by the first statement


async def prove_day(
    connection: Any,
    wallet: Any,
    day: date,
    slots: Collection[int],
    waiting: MutableMapping[int, set[int]],
    report: Report,
    later: InFlight,
    seen: Callable[[ClaimLog | None], None],
    rows: Rows | None = None,
) -> None:
    """Match the day's envelopes, claims, funds and credits, in order of ID and bounded memory.

    `connection` and `wallet` are snapshots (see the package for their order); `waiting` gives the seqs by envelope
    whose payout is not final, and loses those met here. `seen` hears every envelope's log, None for one
    that does not replay.
    """
    low, high, of = first_id(day), end_id(day), sorted(slots)
    rows = rows or from_postgres(connection, Piece(day, of, {}, hot=True))
    claims = Ordered(rows.claims)
    payouts = Ordered.of(wallet, _PAYOUTS, str(low), str(high), of)
    funds = Ordered.of(wallet, _FUNDS, low, high, of)
    async for header in rows.headers:
        envelope_id = header["envelope_id"]
        own_claims, lost_claims = await claims.take(envelope_id)
        own_credits, lost_credits = await payouts.take(envelope_id)
        own_funds, lost_funds = await funds.take(envelope_id)
        _orphans(lost_claims, lost_credits, lost_funds, report)
        own_waiting = waiting.pop(envelope_id, set())
        log = replay(header, own_claims, report)
        seen(log)
        if log is not None:
            match_fund(log, own_funds, report, later)
            match_credits(log, own_credits, own_waiting, report, later)
    _orphans(await claims.rest(), await payouts.rest(), await funds.rest(), report)


def _orphans(claims: Collection[Any], credits_: Collection[Any], funds: Collection[Any], report: Report) -> None:
    for row in claims:
        report.add("claim_has_envelope", row["envelope_id"], f"claim {row['seq']} has no envelope", row["amount_fen"])
    for row in credits_:
        sentence = f"order {row['order_no']} paid {row['amount_fen']} fen for an envelope that does not exist"
        report.add("credit_has_claim", row["envelope_id"], sentence, row["amount_fen"])
    for row in funds:
        orphan_fund(row, report)
