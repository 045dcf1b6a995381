"""What watchers of an envelope are shown: what changes of it, the newest claims first of all.

It is the same for all who may see the envelope, so it is encoded once for all of them. A version names what it shows:
the number of committed entries, and the status, which time alone may change.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from envelope.claim_log import ClaimLog
from envelope.outcomes import State
from setnode.limits import LIVE_CLAIMS
from setnode.views.claims_json import ClaimRow, claim_rows
from setnode.views.envelope_json import as_json, ended_view
from sharding.ids import format_id


class LiveFrame(NamedTuple):
    """One frame: its JSON, its version, and how many claims there are."""

    json: bytes
    version: str
    claimed_count: int


def live_version(log: ClaimLog, now_ms: int) -> str:
    """Return the version of what watchers of a log are shown now: two that are equal show the same."""
    return f"{log.committed}.{log.state(now_ms).value}"


def live_frame(log: ClaimLog, now_ms: int, best: Callable[[], ClaimRow | None], since: int = 0) -> LiveFrame:
    """Return the frame of a log, with its committed claims from seq `since` on, the LIVE_CLAIMS newest at most.

    `best` returns the claim of best luck, which is asked for once all are taken. The other claims are not made for a
    frame: of a hot envelope there are thousands more in each.
    """
    state, count = log.state(now_ms), log.committed_opens
    first = max(since, count - LIVE_CLAIMS)
    view: dict[str, Any] = {
        "envelope_id": format_id(log.terms.envelope_id),
        "status": state.value,
        "count": log.terms.count,
        "claimed_count": count,
        "claimed_fen": log.committed_fen,
        "claims": claim_rows(log, first),
    }
    if state is State.SOLD_OUT:
        view["best_luck"] = best()
    view |= ended_view(log, state, count)
    return LiveFrame(as_json(view), live_version(log, now_ms), count)
