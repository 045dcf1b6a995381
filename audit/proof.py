"""The whole audit: the consistent cut, day by day and SET by SET, in bounded memory."""

import time
from collections import defaultdict
from collections.abc import Callable, Collection
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import date
from functools import lru_cache, partial
from typing import Any

from archive.place import Archive
from audit import queries
from audit.cold import Registered, hole, rows_of
from audit.cut import Piece, pieces_of, set_snapshot
from audit.day import prove_day, snapshot
from audit.matching import InFlight, check_credit, check_fund, stray
from audit.report import Report
from envelope.claim_log import ClaimLog
from envelope.errors import Refused
from sharding.ids import day_of, first_id

_FUNDS = queries.read("funds")
_WAITING = queries.read("waiting")
_ORDERS = queries.read("orders")
_ACCOUNTS = queries.read("accounts")
_STRAYS = queries.read("strays")
_LAST_CHUNK = 5_000
_DAY = 10**13
"""IDs of one business day; what stands above it is YYMMDD."""
TICK = 1_000
"""Envelopes between two reports of progress."""


@dataclass(frozen=True)
class AuditTarget:
    """One SET: its name, the audit role's DSN, and the slots that live there; `slots_on` where that hangs on the day.

    What stands there of other slots is a copy, left by a move or on its way: it is somebody else's to prove.
    """

    name: str
    dsn: str
    slots: Collection[int]
    slots_on: Callable[[date], Collection[int]] | None = None

    def on(self, day: date) -> list[int]:
        """Return the slots that live there on a day, in rising order."""
        return sorted(self.slots if self.slots_on is None else self.slots_on(day))


async def audit(
    targets: Collection[AuditTarget],
    wallet_dsn: str,
    progress: Callable[[str, int], None] = lambda *_: None,
    *,
    archive: Archive | None = None,
) -> Report:
    """Prove everything over all SETs, the archive and the wallet; `progress` hears (SET, envelopes so far)."""
    report, started = Report(), time.perf_counter()
    async with AsyncExitStack() as stack:
        # Order matters: the wallet's first snapshot must be older than every SET's.
        before = await snapshot(stack, wallet_dsn)
        await _prove_accounts(before, report)
        later = InFlight()
        covered: list[int] = []
        for target in targets:
            connection = await set_snapshot(stack, target.dsn)
            pieces = await _prove_set(connection, before, target, archive, report, later, progress)
            covered.extend(first_id(piece.day) // _DAY * 1000 + slot for piece in pieces for slot in piece.slots)
        for row in await before.fetch(_STRAYS, covered):
            stray(row, report)
    await _settle(wallet_dsn, later, report)
    report.seconds = time.perf_counter() - started
    return report


async def _prove_accounts(wallet: Any, report: Report) -> None:
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


async def _prove_set(
    connection: Any,
    wallet: Any,
    target: AuditTarget,
    archive: Archive | None,
    report: Report,
    later: InFlight,
    progress: Callable[[str, int], None],
) -> list[Piece]:
    waiting = await _waiting(connection, target, report)
    seen = 0
    pieces = await pieces_of(connection, target.on)

    def count(log: ClaimLog | None) -> None:
        nonlocal seen
        seen += 1
        if seen % TICK == 0:
            progress(target.name, seen)
        if log is not None:
            _add_up(log, report)
            registered.add(log)

    for piece in pieces:
        registered = Registered(piece)
        try:
            async with AsyncExitStack() as opened:
                rows = await rows_of(opened, connection, piece, archive)
                await prove_day(connection, wallet, piece.day, piece.slots, waiting, report, later, count, rows)
        except Refused as refused:
            hole(piece, refused, report)
        else:
            registered.compare(report)
    for envelope_id in waiting:
        report.add("intent_has_claim", envelope_id, "it is to be paid out, and no such envelope stands")
    progress(target.name, seen)
    return pieces


async def _waiting(connection: Any, target: AuditTarget, report: Report) -> dict[int, set[int]]:
    waiting: dict[int, set[int]] = defaultdict(set)
    elsewhere = lru_cache(partial(_elsewhere, target))
    async for row in connection.cursor(_WAITING, prefetch=2_000):
        if elsewhere(row["envelope_id"] // _DAY, row["envelope_id"] % 1000):
            continue  # the SET that has it now has its intent, too; to pay it here as well is to pay it once
        waiting[row["envelope_id"]].add(row["seq"])
        report.sums.stuck += row["stuck"]
    return waiting


def _elsewhere(target: AuditTarget, digits: int, slot: int) -> bool:
    """Say whether a day (YYMMDD) and slot are on another SET; what has no day is here, to be found out."""
    try:
        return slot not in target.on(day_of(digits * _DAY))
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


async def _settle(wallet_dsn: str, later: InFlight, report: Report) -> None:
    """Read the wallet again, after all SETs: what was not waiting there must be paid here."""
    if not later.credits and not later.funds:
        return
    async with AsyncExitStack() as stack:
        wallet = await snapshot(stack, wallet_dsn)
        orders = sorted(later.credits)
        for start in range(0, len(orders), _LAST_CHUNK):
            chunk = orders[start : start + _LAST_CHUNK]
            found = {row["order_no"]: row for row in await wallet.fetch(_ORDERS, chunk)}
            for order_no in chunk:
                envelope_id, receiver, fen = later.credits[order_no]
                if order_no in found:
                    check_credit(envelope_id, order_no, receiver, fen, found[order_no], report)
                else:
                    sentence = f"order {order_no} of {fen} fen is neither paid, nor waiting, nor stuck"
                    report.add("claim_is_paid_or_waiting", envelope_id, sentence, fen)
        for envelope_id, (sender, fen) in later.funds.items():
            row = await wallet.fetchrow(_FUNDS, envelope_id, envelope_id + 1, [envelope_id % 1000])
            if row is None:
                report.add("envelope_has_fund", envelope_id, f"nobody paid in its {fen} fen", fen)
            else:
                check_fund(envelope_id, sender, fen, row, report)
