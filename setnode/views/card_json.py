"""The card of an envelope: what a row of a list shows of it, as the JSON members that the gateway adds to its own."""

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from envelope.claim_log import ClaimLog
from envelope.outcomes import Entry, State, state_at
from setnode.views.timestamps import rfc3339


class _Card(msgspec.Struct, gc=False):
    sender: str
    greeting: str
    kind: str
    status: str
    count: int
    claimed_count: int
    total_fen: int
    claimed_fen: int
    opens_at: str
    expires_at: str
    refund_fen: int | UnsetType = UNSET
    best_luck: bool | UnsetType = UNSET
    """Of a viewer who holds a share: whether it is the best of all, once all are taken."""


_encode = msgspec.json.Encoder().encode


def card_of_log(log: ClaimLog, viewer: str, now_ms: int) -> bytes:
    """Return the card of an envelope whose log is in memory, by its committed entries; `viewer` may see it."""
    terms, closing, opens = log.terms, log.committed_closing, log.committed_opens
    seq = log.winners.get(viewer, opens)
    best_luck: bool | UnsetType = UNSET
    if seq < opens:
        # The first of equals has best luck, as in a detail.
        best_luck = opens == terms.count and seq == log.amounts.index(max(log.amounts))
    return _encode(
        _Card(
            terms.sender,
            terms.greeting,
            terms.kind.value,
            log.state(now_ms).value,
            terms.count,
            opens,
            terms.total_fen,
            log.committed_fen,
            rfc3339(max(terms.opens_at_ms, terms.created_at_ms)),
            rfc3339(terms.expires_at_ms),
            UNSET if closing is None else closing.amount_fen,
            best_luck,
        )
    )


def card_of_row(row: Any, now_ms: int) -> bytes:
    """Return the card of a row of `read_cards`, which has only envelopes that its viewer may see."""
    state = _state_of(row, now_ms)
    return _encode(
        _Card(
            row["sender"],
            row["greeting"],
            row["kind"],
            state.value,
            row["shares"],
            row["opens"],
            row["total_fen"],
            row["claimed_fen"],
            rfc3339(max(row["opens_at_ms"], row["created_at_ms"])),
            rfc3339(row["expires_at_ms"]),
            UNSET if row["closed_by"] is None else row["closed_fen"],
            UNSET if not row["holds"] else state is State.SOLD_OUT and row["luckiest"],
        )
    )


def can_be_opened(row: Any, now_ms: int) -> bool:
    """Say whether a viewer who holds no share may still open the envelope of a row of `read_cards`, now or later."""
    return not row["holds"] and _state_of(row, now_ms) in (State.OPEN, State.SCHEDULED)


def _state_of(row: Any, now_ms: int) -> State:
    return state_at(
        now_ms,
        opens=row["opens"],
        count=row["shares"],
        closed_by=None if row["closed_by"] is None else Entry(row["closed_by"]),
        opens_at_ms=row["opens_at_ms"],
        expires_at_ms=row["expires_at_ms"],
    )
