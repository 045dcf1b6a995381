"""One envelope's whole story: created, funded, claimed, paid, closed, refunded, and what the audit says of it.

The seed is told only once the envelope is final: until then it would tell every share that is still to be won. Never
told: the password's hash, the header's seal, the key of the create.
"""

import time
from collections.abc import Mapping
from typing import Any

from audit.one import OneEnvelope, prove_one
from audit.report import Report
from envelope.claim_log import ClaimLog
from envelope.outcomes import Entry
from errors import Refused
from installation.access import Access
from ops.limits import CLAIMS_SHOWN
from runtime.sandbox_clock import ahead_ms
from sharding.ids import database_for, day_of, parse_id
from sharding.slots import database_name
from wire.orders import escrow_account, fund_order, payout_order

_CLAIM, _REFUND = 2, 3
"""Kinds of transfers, as in schema/wallet.sql."""


async def story(access: Access, text: str) -> dict[str, Any]:
    """Return the story of an envelope by its ID.

    Raises Refused as `parse_id` and `unknown_envelope`, Unavailable if a database is away.
    """
    topology = access.topology()
    envelope_id = parse_id(text, topology.layout)
    at = topology.set_for(envelope_id)
    home = at.name
    begun = time.perf_counter()
    found = await prove_one(
        access.audit_target(home), access.wallet_dsn(), envelope_id, access.archive(),
        ahead_s=ahead_ms(access.clock) / 1000,
    )  # fmt: skip
    if found.header is None and found.fund is None and not found.credits:
        raise Refused("unknown_envelope", f"neither {home} nor the wallet knows an envelope {text}")
    log, report = found.log, found.report
    return {
        "envelope_id": text,
        "set": home,
        "server": topology.server_in(at, envelope_id).name,
        "database": database_name(database_for(envelope_id)),
        "day": str(day_of(envelope_id)),
        "place": found.place,
        "escrow": escrow_account(envelope_id),
        "header": _header(found.header, log, found.named),
        "status": _status(found, log, access.clock.now_ms()),
        "sums": _sums(found, log),
        "claims": _claims(found)[:CLAIMS_SHOWN],
        "claims_left_out": max(0, len(found.claims) - CLAIMS_SHOWN),
        "waiting": [_waiting(row, report) for row in found.waiting],
        "verdict": {
            "holds": report.holds,
            "violations": [{"check": one.check, "detail": one.detail, "fen": one.fen} for one in report.violations],
            "seconds": round(time.perf_counter() - begun, 3),
        },
        "timeline": _timeline(envelope_id, found),
    }


def _header(row: Mapping[str, Any] | None, log: ClaimLog | None, named: Any) -> dict[str, Any] | None:
    if row is None:
        return None
    shown = {
        "sender": row["sender"],
        "kind": row["kind"],
        "split": row["split"],
        "split_version": row["split_version"],
        "total_fen": row["total_fen"],
        "count": row["shares"],
        "greeting": row["greeting"],
        "created_at_ms": row["created_at_ms"],
        "opens_at_ms": row["opens_at_ms"],
        "expires_at_ms": row["expires_at_ms"],
        "named": list(named) if row["named"] else None,
        "password": row["password_mac"] is not None,
        "min_fen": row["min_fen"],
        "max_fen": row["max_fen"],
    }
    return shown | ({"seed": row["seed"]} if log is not None and log.final else {})


def _status(found: OneEnvelope, log: ClaimLog | None, now_ms: int) -> str:
    if found.header is None:
        return "no_header"
    return "unreadable" if log is None else log.state(now_ms).value


def _sums(found: OneEnvelope, log: ClaimLog | None) -> dict[str, int | None]:
    paid = {kind: sum(row["amount_fen"] for row in found.credits if row["kind"] == kind) for kind in (_CLAIM, _REFUND)}
    claimed = sum(row["amount_fen"] for row in found.claims if row["kind"] == Entry.OPEN)
    return {
        "paid_in_fen": None if found.fund is None else found.fund["amount_fen"],
        "claimed_fen": claimed,
        "credited_fen": paid[_CLAIM],
        "refunded_fen": paid[_REFUND],
        "open_fen": None if log is None else log.left_fen,
        "in_escrow_fen": None if found.fund is None else found.fund["left_fen"],
        "in_flight_fen": found.report.sums.in_flight_fen,
    }


def _claims(found: OneEnvelope) -> list[dict[str, Any]]:
    credited = {row["order_no"]: row for row in found.credits}
    rows = []
    for row in found.claims:
        order_no = payout_order(int(found.header["envelope_id"]), row["seq"]) if found.header else ""
        paid = credited.get(order_no)
        rows.append(
            {
                "seq": row["seq"],
                "kind": row["kind"],
                "user": row["user_id"],
                "amount_fen": row["amount_fen"],
                "at_ms": row["at_ms"],
                "order_no": order_no,
                "paid_fen": None if paid is None else paid["amount_fen"],
                "paid_at_ms": found.times.get(order_no),
            }
        )
    return rows


def _waiting(row: Mapping[str, Any], report: Report) -> dict[str, Any]:
    return {"seq": row["seq"], "stuck": row["stuck"], "age_s": round(report.age_s(row), 3), "reason": row["reason"]}


def _timeline(envelope_id: int, found: OneEnvelope) -> list[dict[str, Any]]:
    """Return what happened in order of time; of claims and payouts the first CLAIMS_SHOWN."""
    events: list[dict[str, Any]] = []
    header, fund = found.header, found.fund
    if fund is not None:
        order_no = fund_order(fund["create_key"])
        if (at := found.times.get(order_no)) is not None:
            user = (fund["sender"] or "").removeprefix("user:")
            events.append({"what": "funded", "at_ms": at, "fen": fund["amount_fen"], "user": user})
    if header is not None:
        events.append(
            {"what": "created", "at_ms": header["created_at_ms"], "fen": header["total_fen"], "user": header["sender"]}
        )
        if header["opens_at_ms"] > header["created_at_ms"]:
            events.append({"what": "opens", "at_ms": header["opens_at_ms"]})
        if not any(row["kind"] != Entry.OPEN for row in found.claims):
            events.append({"what": "expires", "at_ms": header["expires_at_ms"]})
    for row in found.claims[:CLAIMS_SHOWN]:
        what = "claimed" if row["kind"] == Entry.OPEN else row["kind"]
        events.append(
            {"what": what, "at_ms": row["at_ms"], "fen": row["amount_fen"], "user": row["user_id"], "seq": row["seq"]}
        )
        order_no = payout_order(envelope_id, row["seq"])
        if (at := found.times.get(order_no)) is not None:
            paid = "paid" if row["kind"] == Entry.OPEN else "refunded"
            user = row["user_id"] or (header["sender"] if header else "")
            events.append({"what": paid, "at_ms": at, "fen": row["amount_fen"], "user": user, "seq": row["seq"]})
    return sorted(events, key=lambda one: one["at_ms"])
