"""The checks of one business day of one SET: every envelope replays, every fund and credit has its counterpart."""

from collections.abc import Awaitable, Callable, Collection, MutableMapping
from datetime import date
from functools import partial
from typing import Any

from audit.envelopes import replay
from audit.matching import IN_FLIGHT_MOST, InFlight, fund_without_envelope, match_credits, match_fund
from audit.merge_cursor import MergeCursor
from audit.report import Report
from audit.snapshot import DayPart, Rows, from_postgres
from envelope.claim_log import ClaimLog
from runtime import sql
from runtime.postgres import Connection
from sharding.ids import end_id, first_id

PAYOUTS = sql.read("audit", "payouts")
FUNDS = sql.read("audit", "funds")


async def prove_day(
    connection: Connection,
    wallet: Connection,
    day: date,
    slots: Collection[int],
    pending: MutableMapping[int, set[int]],
    report: Report,
    in_flight: InFlight,
    seen: Callable[[ClaimLog | None], None],
    rows: Rows | None = None,
    flush: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Match the day's envelopes, claims, funds and credits by a merge over their cursors, in order of envelope ID.

    `connection` and `wallet` are snapshots (the package says in which order). `pending` holds the seqs, by envelope,
    whose payout is not final; envelopes met here are removed from it. `seen` is called with each envelope's log, or
    None if it does not replay. Rows without an envelope are reported as they come. Memory is bounded only with a
    `flush`, which is called when `in_flight` holds IN_FLIGHT_MOST and must empty it.
    """
    low, high, of = first_id(day), end_id(day), sorted(slots)
    rows = rows or from_postgres(connection, DayPart(day, of, {}, hot=True))
    claims = MergeCursor(rows.claims, partial(_claim_without_envelope, report))
    receivers = MergeCursor(rows.receivers)
    payouts = MergeCursor.of(wallet, PAYOUTS, str(low), str(high), of, orphan=partial(_credit_without_envelope, report))
    funds = MergeCursor.of(wallet, FUNDS, low, high, of, orphan=partial(fund_without_envelope, report))
    async for header in rows.headers:
        envelope_id = header["envelope_id"]
        own_claims = await claims.advance_to(envelope_id)
        named = await receivers.advance_to(envelope_id)
        own_credits = await payouts.advance_to(envelope_id)
        own_funds = await funds.advance_to(envelope_id)
        own_pending = pending.pop(envelope_id, set())
        log = replay(header, own_claims, frozenset(row["user_id"] for row in named), report)
        seen(log)
        if log is not None:
            match_fund(log, own_funds, sum(row["amount_fen"] for row in own_credits), report, in_flight)
            match_credits(log, own_credits, own_pending, report, in_flight)
        if flush is not None and len(in_flight) >= IN_FLIGHT_MOST:
            await flush()
    for cursor in (claims, payouts, funds):
        await cursor.finish()


def _claim_without_envelope(report: Report, row: Any) -> None:
    report.add("claim_has_envelope", row["envelope_id"], f"claim {row['seq']} has no envelope", row["amount_fen"])


def _credit_without_envelope(report: Report, row: Any) -> None:
    sentence = f"order {row['order_no']} paid {row['amount_fen']} fen for an envelope that does not exist"
    report.add("credit_has_claim", row["envelope_id"], sentence, row["amount_fen"])
