"""The JSON objects of create and detail, without the share token, which the gateway adds."""

from typing import Any, Final

import msgspec

from envelope.claim_log import ClaimLog
from envelope.outcomes import State
from envelope.split import commitment
from envelope.terms import Terms
from setnode.views.claims_json import ClaimsJson, ClaimsPage
from setnode.views.timestamps import rfc3339
from sharding.ids import format_id

_FORMAT: Final = 1
"""Raise it with every change of what a detail shows of the same log: clients keep details by their version."""
_STATES: Final = tuple(State)
as_json = msgspec.json.Encoder().encode
"""Encode a view in the form that clients receive."""


def created_view(terms: Terms) -> dict[str, Any]:
    """Return what the sender receives at creation. It depends on the terms alone, so a repeat is the same."""
    scheduled = terms.opens_at_ms > terms.created_at_ms
    created_at = rfc3339(terms.created_at_ms)
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
        "opens_at": rfc3339(terms.opens_at_ms) if scheduled else created_at,
        "expires_at": rfc3339(terms.expires_at_ms),
    }
    if terms.min_fen is not None:
        view["min_fen"] = terms.min_fen
    if terms.max_fen is not None:
        view["max_fen"] = terms.max_fen
    if terms.invited is not None:
        view["to"] = sorted(terms.invited)
    return view


def version_of(log: ClaimLog, viewer: str, now_ms: int, page: ClaimsPage, *, archived: bool = False) -> str:
    """Return what names this state of a detail to this viewer: all that can change, without making the view.

    Everything else follows from the header, which never changes, and from the committed entries, which are only added
    to: their number and the time of the last name them, also in a SET that was restored to an earlier instant and has
    gone on from there. The sender is shown more than others.
    """
    state, own = _STATES.index(log.state(now_ms)), viewer == log.terms.sender
    entries = f"{log.committed}.{log.changed_at_ms:x}"
    return f"{_FORMAT}-{entries}-{state}{'o' if own else ''}{'a' if archived else ''}-{page.first}-{page.limit}"


def is_known(version: str, page: ClaimsPage) -> bool:
    """Say whether the caller has this version."""
    return version in page.known or "*" in page.known


def detail_view(log: ClaimLog, viewer: str, now_ms: int, claims: ClaimsJson, page: ClaimsPage) -> dict[str, Any]:
    """Return the envelope as `viewer`, who may see it, is shown it: committed entries, the seed if nothing can change.

    `claims` is the log's JSON, caught up; a page of it goes into the object as it is (`msgspec.Raw`). Sums and best
    luck are those of all claims.
    """
    terms, state = log.terms, log.state(now_ms)
    view = created_view(terms)
    if viewer != terms.sender:
        view.pop("to", None)
    view["status"] = state.value
    view["claimed_count"] = claims.count
    view["claimed_fen"] = claims.claimed_fen
    view["claims"], following = claims.page(page)
    view["next_cursor"] = None if following is None else str(following)
    if state is State.SOLD_OUT:
        view["best_luck"] = claims.best
    view |= ended_view(log, state, claims.count)
    if state is State.SOLD_OUT or "closed_at" in view:
        view["split_seed"] = terms.seed.hex()
    return view


def ended_view(log: ClaimLog, state: State, claimed_count: int) -> dict[str, Any]:
    """Return what a closing entry that is committed adds to a view: what went back, and when; nothing without one."""
    closing = log.closing
    if closing is None or state not in (State.EXPIRED, State.CANCELED) or log.committed <= claimed_count:
        return {}
    return {"refund_fen": closing.amount_fen, "closed_at": rfc3339(closing.at_ms)}
