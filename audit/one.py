"""One envelope, from its header to its last credit, with the verdict of all checks that concern it alone."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

from archive.details import Details
from archive.place import Archive
from audit.day import FUNDS, PAYOUTS
from audit.envelopes import replay
from audit.matching import InFlight, fund_without_envelope, match_credits, match_fund
from audit.overdue import note_overdue
from audit.proof import LATE_S, PENDING_PAYOUTS, AuditTarget, check_in_flight, check_waiting
from audit.report import Report
from audit.snapshot import DayPart, day_parts, in_tables, set_queries, set_snapshot, snapshot
from envelope.claim_log import ClaimLog
from runtime import sql
from runtime.postgres import Connection
from sharding.ids import day_of, slot_of
from wire.orders import fund_order

_WAITING = f"SELECT * FROM (\n{PENDING_PAYOUTS}\n) AS p WHERE envelope_id = $1"  # noqa: S608 - two statements of ours
_TIMES = sql.read("audit", "order_times")


@dataclass
class OneEnvelope:
    """Rows as the queries of the audit return them. `header` is None if the SET has none; `log` if it does not replay.

    `times`: of the orders in the wallet, in ms. `place`: "hot", "cold" (the day's own tables), "archive" or "nowhere".
    """

    place: str
    header: Mapping[str, Any] | None = None
    claims: Sequence[Mapping[str, Any]] = ()
    named: Sequence[str] = ()
    fund: Mapping[str, Any] | None = None
    credits: Sequence[Mapping[str, Any]] = ()
    waiting: Sequence[Mapping[str, Any]] = ()
    times: Mapping[str, int] = field(default_factory=dict)
    log: ClaimLog | None = None
    report: Report = field(default_factory=Report)


async def prove_one(
    target: AuditTarget, wallet_dsn: str, envelope_id: int, archive: Archive | None, *, ahead_s: float = 0.0
) -> OneEnvelope:
    """Read one envelope on both sides, in the order of snapshots of an audit, and check it; `ahead_s` as of the audit.

    Balances, escrows and the register's sums are about more than one envelope: they are the whole audit's. Raises
    Unavailable if a database is away, Refused as `archive.details` if its archive cannot be read.
    """
    slot, day = slot_of(envelope_id), day_of(envelope_id)
    async with AsyncExitStack() as stack:
        wallet = await snapshot(stack, wallet_dsn)
        connection = await set_snapshot(stack, target.dsn)
        parts = await day_parts(connection, lambda one: [slot] if one == day and slot in target.on(day) else [])
        part = next((one for one in parts if one.day == day and slot in one.slots), None)
        found = await _rows(connection, part, envelope_id, archive)
        found.report.ahead_s = ahead_s
        await note_overdue(connection, found.report, LATE_S)
        waiting = await connection.fetch(_WAITING, envelope_id)
        found.waiting = [dict(row) for row in waiting]
        funds = await wallet.fetch(FUNDS, envelope_id, envelope_id + 1, [slot])
        found.fund = funds[0] if funds else None
        found.credits = await wallet.fetch(PAYOUTS, str(envelope_id), str(envelope_id + 1), [slot])
        orders = [row["order_no"] for row in found.credits] + [fund_order(row["create_key"]) for row in funds]
        found.times = {row["order_no"]: row["at_ms"] for row in await wallet.fetch(_TIMES, orders)}
    await _check(found, wallet_dsn)
    return found


async def _rows(connection: Connection, part: DayPart | None, envelope_id: int, archive: Archive | None) -> OneEnvelope:
    if part is None:
        return OneEnvelope("nowhere")
    if part.xx is not None:
        digest = part.entries[part.xx].manifest_sha256
        return OneEnvelope("archive") if archive is None else await _from_archive(archive, envelope_id, digest)
    tables = in_tables(part)
    bounds = envelope_id, envelope_id + 1, [slot_of(envelope_id)]
    headers, claims, named = [await connection.fetch(tables(query), *bounds) for query in set_queries()]
    found = OneEnvelope("hot" if part.hot else "cold", headers[0] if headers else None, claims)
    found.named = [row["user_id"] for row in named]
    return found


async def _from_archive(archive: Archive, envelope_id: int, digest: str | None) -> OneEnvelope:
    details = Details(archive.folder, archive.key)
    try:
        row = await asyncio.to_thread(details.read, envelope_id, digest)
    finally:
        details.close()
    if row is None:
        return OneEnvelope("archive")
    slot = slot_of(envelope_id)
    columns = zip(row["seqs"], row["kinds"], row["users"], row["amounts"], row["times"], strict=True)
    names = ("seq", "kind", "user_id", "amount_fen", "at_ms")
    claims = [{**dict(zip(names, one, strict=True)), "slot": slot, "shares": row["shares"]} for one in columns]
    guests = zip(row["guests"], row["invitations"], strict=True)
    # A day leaves the hot tables only when all of it is final: nothing of it is due.
    header = {**row, "slot": slot, "due": False}
    return OneEnvelope("archive", header, claims, [user for user, invited in guests if invited])


async def _check(found: OneEnvelope, wallet_dsn: str) -> None:
    report, in_flight = found.report, InFlight()
    pending = {row["seq"] for row in found.waiting}
    for row in found.waiting:
        check_waiting(row, report)
    if found.header is None:
        if found.fund is not None:
            fund_without_envelope(report, found.fund)
        for row in found.claims:
            report.add(
                "claim_has_envelope", row["envelope_id"], f"claim {row['seq']} has no envelope", row["amount_fen"]
            )
        return
    found.log = log = replay(found.header, found.claims, frozenset(found.named), report)
    if log is None:
        return
    paid_fen = sum(row["amount_fen"] for row in found.credits)
    match_fund(log, [] if found.fund is None else [found.fund], paid_fen, report, in_flight)
    match_credits(log, found.credits, pending, report, in_flight)
    await check_in_flight(wallet_dsn, in_flight, report)
