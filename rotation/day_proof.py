"""The proof that a day may be closed: it is over (`days.finality`), and the audit of the day finds nothing.

The audit replays every envelope from its seed and matches funds, claims, refunds and the wallet's transfers one by one.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Collection
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from datetime import date, datetime
from typing import Any

from audit.day import prove_day
from audit.matching import InFlight
from audit.report import Report
from audit.snapshot import freeze
from audit.sums import DaySums
from days.finality import Obstacle, escrows, remaining_work, slots_of_all
from days.limits import SHOWN
from envelope.claim_log import ClaimLog
from errors import InvariantBroken
from rotation.limits import PROOF_CHARS, TICK
from rotation.obstacles import misplaced
from runtime.postgres import Connection
from sharding.ids import database_for
from sharding.slots import TABLES_PER_DATABASE

Progress = Callable[[int], None]
"""Receives the number of envelopes proven so far, every TICK of them."""


@dataclass
class Proof:
    """What was found about one SET's day. It holds if nothing stands in the way; `at` is when it was begun.

    `obstacles` are the first SHOWN of `count`; `databases` holds the sums of each database's rows; `credited_fen` is
    what the wallet has paid out, `escrows` the number of escrow accounts that must be zero.
    """

    day: date
    at: datetime
    databases: dict[int, DaySums]
    obstacles: list[Obstacle] = field(default_factory=list)
    count: int = 0
    credited_fen: int = 0
    escrows: int = 0

    @property
    def holds(self) -> bool:
        """Whether the day may be closed."""
        return self.count == 0

    def add(self, obstacle: Obstacle) -> None:
        """Count an obstacle, and keep it if it is among the first SHOWN."""
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
    """Return a proof as the operation log holds it: compact JSON of a few hundred characters.

    Raises InvariantBroken if it is longer than the log's column: cut, the export could not read it.
    """
    text = json.dumps(proof, separators=(",", ":"))
    if len(text) > PROOF_CHARS:
        raise InvariantBroken("proof_fits", f"a proof has {len(text)} characters, the log holds {PROOF_CHARS}")
    return text


async def prove(
    connection: Connection,
    wallet: Connection,
    day: date,
    databases: Collection[int],
    foreign: Collection[int],
    at: datetime,
    progress: Progress = lambda _: None,
    *,
    ahead_s: float = 0.0,
) -> Proof:
    """Prove one hot day of the SET's own `databases`; reads only, in one snapshot of each side. `ahead_s`: see `audit`.

    The proof holds if every envelope is closed or sold out and replays from its seed; no row of it is due, unpaid or
    stuck; funds, claims, refunds and the wallet's transfers agree one by one; each escrow account (day, slot) is zero;
    and the leaves of `foreign`, databases that are another SET's on this day, are empty. Neither `connection` nor
    `wallet` (the auditor's) may be in a transaction.
    """
    slots = slots_of_all(databases)
    proof = Proof(day, at, {xx: DaySums() for xx in databases}, escrows=len(slots))
    report, later = Report(ahead_s=ahead_s), InFlight()
    seen = 0

    def take(log: ClaimLog | None) -> None:
        nonlocal seen
        seen += 1
        if seen % TICK == 0:
            progress(seen)
        if log is not None:
            _take(log, proof)

    async with AsyncExitStack() as stack:
        # As in the audit, the wallet's snapshot is the older one: every credit in it then has its claim in the SET's.
        await freeze(stack, wallet)
        await freeze(stack, connection)
        for obstacle in [
            *await misplaced(connection, day, foreign),
            *await remaining_work(connection, day, slots),
        ]:
            proof.add(obstacle)
        await prove_day(connection, wallet, day, slots, defaultdict(set), report, later, take)
        for obstacle in await escrows(wallet, day, slots):
            proof.add(obstacle)
    progress(seen)
    _judge(proof, report, later)
    return proof


def _take(log: ClaimLog, proof: Proof) -> None:
    terms = log.terms
    proof.databases[database_for(terms.envelope_id)].add(log)
    if not log.final:
        sentence = f"envelope {terms.envelope_id} is still open, with {log.left_fen} fen"
        proof.add(Obstacle("envelope_open", str(terms.envelope_id), sentence, log.left_fen))


def _judge(proof: Proof, report: Report, later: InFlight) -> None:
    """Add what the matching found; money in flight, which the audit allows, keeps a day from being closed."""
    for one in report.violations:
        proof.add(Obstacle(one.check, one.subject, one.detail, one.fen))
    proof.count += report.count - len(report.violations)
    for order_no, (_, due) in later.credits.items():
        sentence = f"payout {order_no} of {due.fen} fen has not reached the wallet"
        proof.add(Obstacle("claim_unpaid", order_no, sentence, due.fen))
    for envelope_id, log in later.funds.items():
        fen = log.terms.total_fen
        sentence = f"envelope {envelope_id} exists, and its {fen} fen were not paid in"
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
