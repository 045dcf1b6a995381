"""The whole audit: consistent snapshots in the right order, then SET by SET and day by day."""

import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import asdict, dataclass
from datetime import date
from functools import lru_cache, partial
from typing import Any

from archive.place import Archive
from audit.cold import RegisterCheck, check_place, missing_rows, rows_of
from audit.day import FUNDS, prove_day
from audit.digests import digest_of
from audit.matching import FUTURE_S, InFlight, check_credit, check_fund, unaccounted
from audit.merge_cursor import PREFETCH
from audit.overdue import note_overdue
from audit.proofs import PartProof, Proofs, name_of
from audit.report import Report
from audit.snapshot import DayPart, Rows, day_parts, set_snapshot, snapshot
from envelope.claim_log import ClaimLog
from errors import Refused
from runtime import postgres, sql
from runtime.postgres import Connection
from sharding.ids import day_from, slot_of, yymmdd, yymmdd_of
from sharding.slots import MAX_SLOTS

PENDING_PAYOUTS = sql.read("audit", "pending_payouts")
_ORDERS = sql.read("audit", "orders")
_ACCOUNTS = sql.read("audit", "accounts")
_ESCROWS = sql.read("audit", "escrows")
_UNACCOUNTED = sql.read("audit", "unaccounted")
_LAST_CHUNK = 5_000
_NO_RIGHT = "42501"
LATE_S = 900.0
"""Payouts and refunds at an envelope's end take less than a second, and after an outage some minutes: a later one is a
violation."""
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
    proofs: Proofs | None = None,
    ahead_s: float = 0.0,
) -> Report:
    """Run all checks over SETs, archive and wallet; `progress` is called with (SET, envelopes so far).

    `only`: the envelopes of this business day alone, with their funds, credits and escrows; balances of users and
    what no SET accounts for on other days are not looked at. `provider`: the wallet pays, or paid, claims out through a
    payment provider. `proofs`: parts that were read whole before and have the same digest now are not read again; not
    used with `only`. `ahead_s`: by how much a sandbox's clock is ahead of the databases'. A dropped day without a
    usable `archive` is a violation, not an error. Raises Unavailable if a database is away, or goes away, or days
    change state too fast (`days_are_moving`), Refused `audit_may_not_read` if its role may not see every row.
    """
    report, started = Report(ahead_s=ahead_s), time.perf_counter()
    known = proofs if proofs is not None and only is None else Proofs()
    async with AsyncExitStack() as stack:
        stack.enter_context(postgres.loss_told("while it was audited; audit again"))
        stack.enter_context(_may_read())
        # The wallet's first snapshot must be older than every SET's (see the package).
        before = await snapshot(stack, wallet_dsn)
        if only is None:
            await _prove_accounts(before, report)
        await _prove_escrows(before, report, only)
        in_flight = InFlight(provider)
        covered: list[int] = []
        for target in targets:
            connection = await set_snapshot(stack, target.dsn)
            prover = _SetProver(connection, before, target, archive, report, in_flight, progress, only)
            parts = await prover.run(known, partial(check_in_flight, wallet_dsn, in_flight, report))
            covered.extend(yymmdd(part.day) * MAX_SLOTS + slot for part in parts for slot in part.slots)
        async for row in _each(before, _UNACCOUNTED, covered):
            if only is None or (row["envelope_id"] is not None and yymmdd_of(row["envelope_id"]) == yymmdd(only)):
                unaccounted(row, report)
    await check_in_flight(wallet_dsn, in_flight, report)
    known.save()
    report.seconds = time.perf_counter() - started
    return report


@contextmanager
def _may_read() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if getattr(error, "sqlstate", "") == _NO_RIGHT:
            sentence = f"the audit's role may not see every row, so nothing is proven: {error}"
            raise Refused("audit_may_not_read", sentence) from error
        raise


def _each(wallet: Connection, query: str, *args: Any) -> AsyncIterator[Any]:
    """Iterate over all rows of a query by a cursor: of a wallet that is lost or edited there may be any number."""
    rows: AsyncIterator[Any] = wallet.cursor(query, *args, prefetch=PREFETCH).__aiter__()
    return rows


async def _prove_accounts(wallet: Connection, report: Report) -> None:
    report.sums.accounts = await wallet.fetchval("SELECT count(*) FROM account")
    total = await wallet.fetchval("SELECT coalesce(sum(balance_fen), 0)::bigint FROM account")
    if total:
        report.add("postings_sum_to_zero", "wallet", f"all balances together are {total} fen, not 0", total)
    async for row in _each(wallet, _ACCOUNTS):
        sentence = "has transfers but does not exist" if row["unknown"] else f"holds {row['balance_fen']} fen"
        report.add(
            "balance_is_sum_of_transfers", row["name"], f"{sentence}; its transfers say {row['sum_fen']}",
            row["balance_fen"] - row["sum_fen"],
        )  # fmt: skip


async def _prove_escrows(wallet: Connection, report: Report, only: date | None) -> None:
    async for row in _each(wallet, _ESCROWS):
        if only is not None and not row["name"].startswith(f"escrow:{only:%y%m%d}:"):
            continue
        sentence = f"holds {row['balance_fen']} fen; the funds of its day and slot have {row['left_fen']} left"
        report.add("escrow_is_what_is_left", row["name"], sentence, row["balance_fen"] - row["left_fen"])


@dataclass
class _SetProver:
    """Proves one SET, part by part, in one snapshot of it and one of the wallet."""

    connection: Connection
    wallet: Connection
    target: AuditTarget
    archive: Archive | None
    report: Report
    in_flight: InFlight
    progress: Callable[[str, int], None]
    only: date | None
    seen: int = 0

    async def run(self, proofs: Proofs, flush: Callable[[], Awaitable[None]]) -> list[DayPart]:
        """Prove all parts; returns them. `flush` decides what is in flight by a later snapshot of the wallet."""
        await note_overdue(self.connection, self.report, LATE_S)
        pending = await _pending_payouts(self.connection, self.target, self.report, self.only)
        parts = [part for part in await day_parts(self.connection, self.target.on) if self.only in (None, part.day)]
        waiting = {(yymmdd_of(envelope_id), slot_of(envelope_id)) for envelope_id in pending}
        for part in parts:
            name = name_of(self.target.name, part, provider=self.in_flight.provider)
            quiet = not any((yymmdd(part.day), slot) in waiting for slot in part.slots)
            known = proofs.of(name) if quiet else None
            try:
                async with AsyncExitStack() as opened:
                    if known is not None and await self._is_as_proven(part, known):
                        known.add_to(self.report.sums)
                        self.report.parts_by_digest += 1
                        self.seen += known.envelopes
                        continue
                    proofs.forget(name)
                    rows = await rows_of(opened, self.connection, part, self.archive)
                    money = await self._read(part, pending, rows, flush)
                if money is not None and quiet and proofs.kept:
                    digest = await digest_of(self.connection, self.wallet, part)
                    proofs.put(name, PartProof(digest=digest, **money))
            except Refused as refused:
                proofs.forget(name)  # what is put back in its place is read whole
                missing_rows(part, refused, self.report)
        for envelope_id in pending:
            self.report.add("intent_has_claim", envelope_id, "a payout is pending, and there is no such envelope")
        self.progress(self.target.name, self.seen)
        return parts

    async def _is_as_proven(self, part: DayPart, known: PartProof) -> bool:
        """Say whether a part that was read whole before has the same digest; raises Refused as `check_place`."""
        await check_place(self.connection, part, self.archive)
        return await digest_of(self.connection, self.wallet, part) == known.digest

    async def _read(
        self, part: DayPart, pending: dict[int, set[int]], rows: Rows, flush: Callable[[], Awaitable[None]]
    ) -> dict[str, int] | None:
        """Read a part whole; returns the money that it adds to the sums if it is worth a proof.

        That is: it holds, it has envelopes, and nothing of it is unfinished.
        """
        report, register_check = self.report, RegisterCheck(part)
        before, violations, undecided = asdict(report.sums), report.count, len(self.in_flight)
        flushed = False

        async def note_flush() -> None:
            nonlocal flushed
            flushed = True
            await flush()

        def count(log: ClaimLog | None) -> None:
            self.seen += 1
            if self.seen % TICK == 0:
                self.progress(self.target.name, self.seen)
            if log is not None:
                _add_up(log, report)
                register_check.add(log)

        await prove_day(
            self.connection, self.wallet, part.day, part.slots, pending, report, self.in_flight, count, rows, note_flush
        )
        register_check.compare(report)
        added = {name: value - before[name] for name, value in asdict(report.sums).items()}
        unfinished = flushed or len(self.in_flight) != undecided or added["open_fen"] or added["in_flight"]
        if report.count != violations or unfinished or not added["envelopes"]:
            return None
        return {name: added[name] for name in PartProof.__struct_fields__[1:]}


async def _pending_payouts(
    connection: Connection, target: AuditTarget, report: Report, only: date | None
) -> dict[int, set[int]]:
    pending: dict[int, set[int]] = defaultdict(set)
    elsewhere = lru_cache(partial(_elsewhere, target))
    async for row in connection.cursor(PENDING_PAYOUTS, prefetch=2_000):
        if only is not None and yymmdd_of(row["envelope_id"]) != yymmdd(only):
            continue
        if elsewhere(yymmdd_of(row["envelope_id"]), slot_of(row["envelope_id"])):
            continue  # the SET that has it now has this intent, too; both pay under the same order number
        envelope_id, seq = row["envelope_id"], row["seq"]
        pending[envelope_id].add(seq)
        check_waiting(row, report)
    return pending


def check_waiting(row: Any, report: Report) -> None:
    """Check a claim whose payout is pending or stuck (queries/pending_payouts.sql)."""
    envelope_id, seq = row["envelope_id"], row["seq"]
    if row["stuck"]:
        report.sums.stuck += 1
        sentence = f"the payout of claim {seq} is stuck: {row['reason']}; `hongbao payout` shows and redrives it"
        report.add("payout_is_not_stuck", envelope_id, sentence)
    elif report.age_s(row) > LATE_S:
        sentence = f"the payout of claim {seq} is pending for {report.age_s(row):.0f} s"
        report.add("payout_is_in_time", envelope_id, sentence)
    elif report.age_s(row) < -FUTURE_S:
        sentence = (
            f"the payout of claim {seq} is from {-report.age_s(row):.0f} s later than now: it would never be late"
        )
        report.add("payout_is_in_time", envelope_id, sentence)


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


async def check_in_flight(wallet_dsn: str, in_flight: InFlight, report: Report) -> None:
    """Read the wallet again, after the SETs: a claim whose payout was not pending there must be paid here.

    What is decided is taken out of `in_flight`.
    """
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
            row = await wallet.fetchrow(FUNDS, envelope_id, envelope_id + 1, [slot_of(envelope_id)])
            if row is None:
                fen = log.terms.total_fen
                report.add("envelope_has_fund", envelope_id, f"its {fen} fen were not paid in", fen)
            else:
                check_fund(log, row, report)
    in_flight.credits.clear()
    in_flight.funds.clear()
