"""The whole audit: consistent snapshots in the right order, then SET by SET and day by day."""

import time
from collections import defaultdict
from collections.abc import Callable, Collection
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import date
from functools import lru_cache, partial

from archive.place import Archive
from audit.cold import RegisterCheck, missing_rows, rows_of
from audit.day import prove_day
from audit.matching import FUTURE_S, InFlight, check_credit, check_fund, unaccounted
from audit.report import Report
from audit.snapshot import DayPart, day_parts, set_snapshot, snapshot
from envelope.claim_log import ClaimLog
from errors import Refused
from runtime import sql
from runtime.postgres import Connection
from sharding.ids import day_from, slot_of, yymmdd, yymmdd_of
from sharding.slots import MAX_SLOTS

_FUNDS = sql.read("audit", "funds")
_PENDING_PAYOUTS = sql.read("audit", "pending_payouts")
_ORDERS = sql.read("audit", "orders")
_ACCOUNTS = sql.read("audit", "accounts")
_ESCROWS = sql.read("audit", "escrows")
_UNACCOUNTED = sql.read("audit", "unaccounted")
_LAST_CHUNK = 5_000
LATE_S = 900.0
"""Payouts take less than a second, and after an outage of the wallet some minutes: a later one is a violation."""
TICK = 1_000
"""Envelopes between two reports of progress."""


@dataclass(frozen=True)
class AuditTarget:
    """One SET: its name, the audit role's DSN, and its slots; `slots_on` if these depend on the day.

    Rows of other slots are copies, left or brought by a move: they are proven in the SET that the topology names.
    """

    name: str
    dsn: str
    slots: Collection[int]
    slots_on: Callable[[date], Collection[int]] | None = None

    def on(self, day: date) -> list[int]:
        """Return the slots that the SET has on a day, in ascending order."""
        return sorted(self.slots if self.slots_on is None else self.slots_on(day))


async def audit(
    targets: Collection[AuditTarget],
    wallet_dsn: str,
    progress: Callable[[str, int], None] = lambda *_: None,
    *,
    archive: Archive | None = None,
    only: date | None = None,
    provider: bool = False,
) -> Report:
    """Run all checks over SETs, archive and wallet; `progress` is called with (SET, envelopes so far).

    `only`: the envelopes of this business day alone, with their funds, credits and escrows; balances of users and
    what no SET accounts for on other days are not looked at. `provider`: the wallet pays, or paid, claims out through a
    payment provider. Raises Unavailable if a database is away or days change
    state too fast (`days_are_moving`). A dropped day without a usable `archive` is a violation, not an error.
    """
    report, started = Report(), time.perf_counter()
    async with AsyncExitStack() as stack:
        # The wallet's first snapshot must be older than every SET's (see the package).
        before = await snapshot(stack, wallet_dsn)
        if only is None:
            await _prove_accounts(before, report)
        await _prove_escrows(before, report, only)
        in_flight = InFlight(provider)
        covered: list[int] = []
        for target in targets:
            connection = await set_snapshot(stack, target.dsn)
            parts = await _prove_set(connection, before, target, archive, report, in_flight, progress, only)
            covered.extend(yymmdd(part.day) * MAX_SLOTS + slot for part in parts for slot in part.slots)
        for row in await before.fetch(_UNACCOUNTED, covered):
            if only is None or (row["envelope_id"] is not None and yymmdd_of(row["envelope_id"]) == yymmdd(only)):
                unaccounted(row, report)
    await _check_in_flight(wallet_dsn, in_flight, report)
    report.seconds = time.perf_counter() - started
    return report


async def _prove_accounts(wallet: Connection, report: Report) -> None:
    report.sums.accounts = await wallet.fetchval("SELECT count(*) FROM account")
    total = await wallet.fetchval("SELECT coalesce(sum(balance_fen), 0)::bigint FROM account")
    if total:
        report.add("postings_sum_to_zero", "wallet", f"all balances together are {total} fen, not 0", total)
    for row in await wallet.fetch(_ACCOUNTS):
        sentence = "has transfers but does not exist" if row["unknown"] else f"holds {row['balance_fen']} fen"
        report.add(
            "balance_is_sum_of_transfers", row["name"], f"{sentence}; its transfers say {row['sum_fen']}",
            row["balance_fen"] - row["sum_fen"],
        )  # fmt: skip


async def _prove_escrows(wallet: Connection, report: Report, only: date | None) -> None:
    for row in await wallet.fetch(_ESCROWS):
        if only is not None and not row["name"].startswith(f"escrow:{only:%y%m%d}:"):
            continue
        sentence = f"holds {row['balance_fen']} fen; the funds of its day and slot have {row['left_fen']} left"
        report.add("escrow_is_what_is_left", row["name"], sentence, row["balance_fen"] - row["left_fen"])


async def _prove_set(
    connection: Connection,
    wallet: Connection,
    target: AuditTarget,
    archive: Archive | None,
    report: Report,
    in_flight: InFlight,
    progress: Callable[[str, int], None],
    only: date | None,
) -> list[DayPart]:
    pending = await _pending_payouts(connection, target, report, only)
    seen = 0
    parts = [part for part in await day_parts(connection, target.on) if only in (None, part.day)]

    def count(log: ClaimLog | None) -> None:
        nonlocal seen
        seen += 1
        if seen % TICK == 0:
            progress(target.name, seen)
        if log is not None:
            _add_up(log, report)
            register_check.add(log)

    for part in parts:
        register_check = RegisterCheck(part)
        try:
            async with AsyncExitStack() as opened:
                rows = await rows_of(opened, connection, part, archive)
                await prove_day(connection, wallet, part.day, part.slots, pending, report, in_flight, count, rows)
        except Refused as refused:
            missing_rows(part, refused, report)
        else:
            register_check.compare(report)
    for envelope_id in pending:
        report.add("intent_has_claim", envelope_id, "a payout is pending, and there is no such envelope")
    progress(target.name, seen)
    return parts


async def _pending_payouts(
    connection: Connection, target: AuditTarget, report: Report, only: date | None
) -> dict[int, set[int]]:
    pending: dict[int, set[int]] = defaultdict(set)
    elsewhere = lru_cache(partial(_elsewhere, target))
    async for row in connection.cursor(_PENDING_PAYOUTS, prefetch=2_000):
        if only is not None and yymmdd_of(row["envelope_id"]) != yymmdd(only):
            continue
        if elsewhere(yymmdd_of(row["envelope_id"]), slot_of(row["envelope_id"])):
            continue  # the SET that has it now has this intent, too; both pay under the same order number
        envelope_id, seq = row["envelope_id"], row["seq"]
        pending[envelope_id].add(seq)
        if row["stuck"]:
            report.sums.stuck += 1
            sentence = f"the payout of claim {seq} is stuck: {row['reason']}; `hongbao payout` shows and redrives it"
            report.add("payout_is_not_stuck", envelope_id, sentence)
        elif row["age_s"] > LATE_S:
            sentence = f"the payout of claim {seq} is pending for {row['age_s']:.0f} s"
            report.add("payout_is_in_time", envelope_id, sentence)
        elif row["age_s"] < -FUTURE_S:
            sentence = f"the payout of claim {seq} is from {-row['age_s']:.0f} s later than now: it would never be late"
            report.add("payout_is_in_time", envelope_id, sentence)
    return pending


def _elsewhere(target: AuditTarget, digits: int, slot: int) -> bool:
    """Say whether a day (YYMMDD) and slot are on another SET; digits that are no date count as here (and violate)."""
    try:
        return slot not in target.on(day_from(digits))
    except ValueError:
        return False


def _add_up(log: ClaimLog, report: Report) -> None:
    sums, closing = report.sums, log.closing
    refunded = 0 if closing is None else closing.amount_fen
    sums.envelopes += 1
    sums.claims += len(log.winners)
    sums.paid_in_fen += log.terms.total_fen
    sums.refunded_fen += refunded
    sums.open_fen += log.left_fen
    sums.claimed_fen += log.terms.total_fen - refunded - log.left_fen


async def _check_in_flight(wallet_dsn: str, in_flight: InFlight, report: Report) -> None:
    """Read the wallet again, after all SETs: a claim whose payout was not pending there must be paid here."""
    if not in_flight.credits and not in_flight.funds:
        return
    async with AsyncExitStack() as stack:
        wallet = await snapshot(stack, wallet_dsn)
        orders = sorted(in_flight.credits)
        for start in range(0, len(orders), _LAST_CHUNK):
            chunk = orders[start : start + _LAST_CHUNK]
            found = {row["order_no"]: row for row in await wallet.fetch(_ORDERS, chunk)}
            for order_no in chunk:
                envelope_id, due = in_flight.credits[order_no]
                if order_no in found:
                    check_credit(envelope_id, order_no, due, found[order_no], report, provider=in_flight.provider)
                else:
                    sentence = f"order {order_no} of {due.fen} fen is neither paid, nor pending, nor stuck"
                    report.add("claim_is_paid_or_waiting", envelope_id, sentence, due.fen)
        for envelope_id, log in in_flight.funds.items():
            row = await wallet.fetchrow(_FUNDS, envelope_id, envelope_id + 1, [slot_of(envelope_id)])
            if row is None:
                fen = log.terms.total_fen
                report.add("envelope_has_fund", envelope_id, f"its {fen} fen were not paid in", fen)
            else:
                check_fund(log, row, report)
