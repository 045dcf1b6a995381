"""The proof that a day owes nobody anything: the audit of that day, and nothing of it waits, is open or in escrow."""

import json
from collections import defaultdict
from collections.abc import Callable, Collection
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from datetime import date, datetime
from typing import Any

from audit.day import freeze, prove_day
from audit.matching import InFlight
from audit.report import Report
from audit.sums import DaySums
from envelope.claim_log import ClaimLog
from rotation.limits import PROOF_CHARS, SHOWN
from rotation.obstacles import Obstacle, escrows, misplaced, slots_of_all, waiting_rows
from sharding.slots import TABLES_PER_DATABASE, database_of

TICK = 500
"""Envelopes between two reports of progress."""

Progress = Callable[[int], None]
"""Hears how many envelopes have been proven so far."""


@dataclass
class Proof:
    """What was found about one SET's day. It holds when nothing stands in the way; `at` is when it was begun."""

    day: date
    at: datetime
    databases: dict[int, DaySums]
    obstacles: list[Obstacle] = field(default_factory=list)
    count: int = 0
    credited_fen: int = 0
    escrows: int = 0

    @property
    def holds(self) -> bool:
        """Whether the day may go."""
        return self.count == 0

    def add(self, obstacle: Obstacle) -> None:
        """Note something in the way; only the first are kept."""
        self.count += 1
        if len(self.obstacles) < SHOWN:
            self.obstacles.append(obstacle)

    def of(self, xx: int) -> dict[str, Any]:
        """Return what was proven of one database, as JSON for the log and the manifest."""
        return {
            "at": self.at.isoformat(timespec="seconds"),
            **asdict(self.databases[xx]),
            "escrows_at_zero": TABLES_PER_DATABASE,
            "unpaid": 0,
            "checks": "closed paid matched escrow",
        }


def as_text(proof: dict[str, Any]) -> str:
    """Return a proof as it goes into the operation log."""
    return json.dumps(proof, separators=(",", ":"))[:PROOF_CHARS]


async def prove(
    connection: Any,
    wallet: Any,
    day: date,
    databases: Collection[int],
    strangers: Collection[int],
    at: datetime,
    progress: Progress = lambda _: None,
) -> Proof:
    """Prove one hot day of one SET; `databases` are those whose money is this SET's. Reads only, in snapshots.

    `strangers` are databases that have tables here and are another SET's on this day: they must be empty. Neither
    `connection` nor `wallet` (the auditor's) is in a transaction.

    Holds when every envelope is closed or sold out and replays from its seed; nothing is due, unpaid or stuck; funds,
    claims, refunds and the wallet's transfers agree one by one; and each escrow account (day, slot) is zero.
    """
    slots = slots_of_all(databases)
    proof = Proof(day, at, {xx: DaySums() for xx in databases}, escrows=len(slots))
    report, later = Report(), InFlight()
    seen = 0

    def take(log: ClaimLog | None) -> None:
        nonlocal seen
        seen += 1
        if seen % TICK == 0:
            progress(seen)
        if log is not None:
            _take(log, proof)

    async with AsyncExitStack() as stack:
        # As in the audit: the wallet's snapshot is the older one, or a credit of this moment would have no claim.
        await freeze(stack, wallet)
        await freeze(stack, connection)
        for obstacle in [*await misplaced(connection, day, strangers), *await waiting_rows(connection, day, slots)]:
            proof.add(obstacle)
        await prove_day(connection, wallet, day, slots, defaultdict(set), report, later, take)
        for obstacle in await escrows(wallet, day, slots):
            proof.add(obstacle)
    progress(seen)
    _judge(proof, report, later)
    return proof


def _take(log: ClaimLog, proof: Proof) -> None:
    terms = log.terms
    proof.databases[database_of(terms.slot)].add(log)
    if not log.final:
        sentence = f"envelope {terms.envelope_id} is open with {log.left_fen} fen"
        proof.add(Obstacle("envelope_open", str(terms.envelope_id), sentence, log.left_fen))


def _judge(proof: Proof, report: Report, later: InFlight) -> None:
    """Take over what the matching found; for a day that is to go, money in flight is in the way too."""
    for one in report.violations:
        proof.add(Obstacle(one.check, one.subject, one.detail, one.fen))
    proof.count += report.count - len(report.violations)
    for order_no, (_, _, fen) in later.credits.items():
        proof.add(Obstacle("claim_unpaid", order_no, f"payout {order_no} of {fen} fen has not reached the wallet", fen))
    for envelope_id, (_, fen) in later.funds.items():
        sentence = f"envelope {envelope_id} stands and its {fen} fen were not paid in"
        proof.add(Obstacle("envelope_has_fund", str(envelope_id), sentence, fen))
    funds_young = report.sums.in_flight - len(later.credits)
    if funds_young > 0:
        sentence = f"{funds_young} payments, {report.sums.in_flight_fen} fen with what is unpaid, have no envelope yet"
        proof.add(Obstacle("fund_without_envelope", f"{proof.day}", sentence, report.sums.in_flight_fen))
    proof.credited_fen = report.sums.credited_fen
    owed = sum(sums.claimed_fen + sums.refunded_fen for sums in proof.databases.values())
    if proof.holds and proof.credited_fen != owed:
        sentence = f"{proof.credited_fen} fen were credited, {owed} claimed and refunded"
        proof.add(Obstacle("credited_is_claimed", f"{proof.day}", sentence, proof.credited_fen - owed))
