"""How an envelope is shown: the JSON objects of create and detail, all but the share token."""

from typing import Any

import msgspec

from envelope.claim_log import ClaimLog
from envelope.outcomes import State
from envelope.split import commitment
from envelope.terms import Terms
from setnode.actors.shown import ShownClaims, instant
from sharding.ids import format_id

as_json = msgspec.json.Encoder().encode
"""Write a view as clients get it, but for the token: the gateway, the narrow place, need not read it."""


def created_view(terms: Terms) -> dict[str, Any]:
    """Return what the sender is told at creation; depends on nothing that changes, so a repeat is the same."""
    scheduled = terms.opens_at_ms > terms.created_at_ms
    created_at = instant(terms.created_at_ms)
    view: dict[str, Any] = {
        "envelope_id": format_id(terms.envelope_id),
        "status": State.SCHEDULED if scheduled else State.OPEN,
        "sender": terms.sender,
        "kind": terms.kind,
        "split": terms.split,
        "split_version": terms.split_version,
        "split_commitment": commitment(terms.seed),
        "total_fen": terms.total_fen,
        "count": terms.count,
        "greeting": terms.greeting,
        "password_required": terms.password_mac is not None,
        "created_at": created_at,
        "opens_at": instant(terms.opens_at_ms) if scheduled else created_at,
        "expires_at": instant(terms.expires_at_ms),
    }
    if terms.invited is not None:
        view["to"] = sorted(terms.invited)
    return view


def detail_view(log: ClaimLog, viewer: str, now_ms: int, shown: ShownClaims) -> dict[str, Any]:
    """Return the envelope as `viewer` may see it: only what is committed; the seed only once nothing can change.

    `shown` are the log's claims, caught up; they go into the JSON as they are (`msgspec.Raw`).
    """
    terms, state = log.terms, log.state(now_ms)
    view = created_view(terms)
    if viewer != terms.sender:
        view.pop("to", None)
    view["status"] = state.value
    view["claimed_count"] = shown.count
    view["claimed_fen"] = shown.claimed_fen
    view["claims"] = shown.rows
    if state is State.SOLD_OUT:
        view["best_luck"] = shown.best
    closing = log.closing
    if closing is not None and state in (State.EXPIRED, State.CANCELED) and log.committed > shown.count:
        view["refund_fen"] = closing.amount_fen
        view["closed_at"] = instant(closing.at_ms)
    if state is State.SOLD_OUT or "closed_at" in view:
        view["split_seed"] = terms.seed.hex()
    return view
