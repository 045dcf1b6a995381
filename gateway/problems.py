"""The one table: the HTTP status, title and advice on retries of every error code, and the status of every outcome.

To change the text or status of an error, change its row here; nothing else in the gateway decides them. A code without
a row gets a general answer by the class of its error (400, 503 or 500); tests/unit/gateway/test_problems.py reads the
sources of all rooms and fails if a code has no row.
"""

from enum import StrEnum
from http import HTTPStatus
from typing import Final, NamedTuple

from envelope.outcomes import Outcome
from errors import HongbaoError, InvariantBroken, Refused, Unavailable


class Retry(StrEnum):
    """Advice, member `retry` of every problem; `ADVICE` says what each word means."""

    NEVER = "never"
    CHANGED = "changed"
    LATER = "later"
    REPEAT = "repeat"


ADVICE: Final[dict[Retry, str]] = {
    Retry.NEVER: "The same request will be refused again.",
    Retry.CHANGED: "Nothing was done. The same request succeeds once what `detail` names has changed, whenever that "
    "is: a wallet that holds too little, once it holds enough.",
    Retry.LATER: "Nothing was done. The same request may succeed after Retry-After seconds.",
    Retry.REPEAT: "It may have been done. Repeat exactly this request, after Retry-After seconds: that is safe and "
    "gives the outcome.",
}
"""For clients: the OpenAPI document and its page say it in these words."""

WITH_RETRY_AFTER: Final = (Retry.LATER, Retry.REPEAT)
"""The advice that comes with the header Retry-After."""


class Problem(NamedTuple):
    """A row. `detail` replaces the error's own, where that would name servers, queries or other internals."""

    status: int
    title: str
    retry: Retry = Retry.NEVER
    detail: str | None = None


_BUSY = Problem(503, "Too busy just now", Retry.LATER)
_MOVED = Problem(503, "The envelope is being moved", Retry.LATER, "its SET is being changed; try again")
_AWAY: Final = "a part of the system is away; nothing was done, try again shortly"
_OURS: Final = Problem(500, "Our fault", Retry.REPEAT, "an unexpected error was logged under this request_id")

PROBLEMS: Final[dict[str, Problem]] = {
    # HTTP itself
    "malformed_http": Problem(400, "Not HTTP as we read it"),
    "route_not_found": Problem(404, "No such path"),
    "method_not_allowed": Problem(405, "The path has no such method"),
    "body_timeout": Problem(408, "The body did not come in time", Retry.LATER),
    "body_too_large": Problem(413, "The body is too large"),
    "unsupported_media_type": Problem(415, "Send application/json"),
    # The user
    "play_users_off": Problem(404, "Nobody plays here"),
    "unknown_play_user": Problem(404, "No such user to play as"),
    "token_missing": Problem(401, "A bearer token is needed"),
    "metrics_key_missing": Problem(401, "Metrics need the metrics key"),
    "token_expired": Problem(401, "The bearer token has expired"),
    "token_invalid": Problem(401, "The bearer token is not valid"),
    "too_many_rejected_tokens": Problem(429, "Too many rejected tokens from this address", Retry.LATER),
    "too_many_requests": Problem(429, "Too many requests", Retry.LATER),
    "too_many_streams": Problem(429, "Too many live streams", Retry.LATER),
    "daily_wins_reached": Problem(429, "As many shares won today as one may", Retry.LATER),
    "daily_opens_of_sender_reached": Problem(429, "As many of this sender's opened today as one may", Retry.LATER),
    "too_soon": Problem(429, "Tried again too soon", Retry.LATER),
    # The form of the request
    "malformed_json": Problem(400, "The body is not JSON"),
    "unknown_field": Problem(422, "The body has a field that is not known"),
    "missing_field": Problem(422, "The body lacks a field"),
    "duplicate_field": Problem(422, "The body has a field twice"),
    "wrong_type": Problem(422, "A field has the wrong type"),
    "idempotency_key_missing": Problem(400, "The header Idempotency-Key is needed"),
    "malformed_idempotency_key": Problem(400, "The Idempotency-Key is not well-formed"),
    "malformed_envelopes": Problem(422, "The list of envelopes is empty or too long"),
    "malformed_limit": Problem(422, "The limit is out of range"),
    "malformed_cursor": Problem(422, "The cursor is not one of ours"),
    "malformed_year": Problem(422, "Not a year of ours"),
    "unknown_role": Problem(422, "The role is not known"),
    "repeated_parameter": Problem(422, "A parameter is there twice"),
    "unknown_parameter": Problem(400, "A parameter is not known"),
    "malformed_envelope_id": Problem(400, "Not an envelope ID"),
    # Well-formed IDs that can name nothing here
    "share_id_invalid": Problem(404, "The link is not whole or not ours"),
    "impossible_day": Problem(404, "The ID is of a day that no calendar has"),
    "future_envelope_id": Problem(404, "The ID is of a day that has not come"),
    "unknown_slot": Problem(404, "The ID can be of no envelope here"),
    # The terms of a new envelope
    "unknown_kind": Problem(422, "The kind is not known"),
    "unknown_split": Problem(422, "The split is not known"),
    "split_not_for_kind": Problem(422, "The split does not fit the kind"),
    "bounds_not_for_kind": Problem(422, "Bounds of a share do not fit the kind"),
    "bounds_not_possible": Problem(422, "No shares within these bounds make the total"),
    "malformed_amount": Problem(422, "Not an amount of whole fen"),
    "amount_out_of_range": Problem(422, "The amount is out of range"),
    "malformed_count": Problem(422, "Not a number of shares"),
    "count_out_of_range": Problem(422, "The number of shares is out of range"),
    "count_exceeds_total": Problem(422, "More shares than fen"),
    "count_exceeds_invited": Problem(422, "More shares than receivers"),
    "greeting_too_long": Problem(422, "The greeting is too long"),
    "control_character": Problem(422, "A text has control characters"),
    "password_length": Problem(422, "The password is empty or too long"),
    "too_few_users": Problem(422, "The list of receivers is empty"),
    "too_many_users": Problem(422, "The list of receivers is too long"),
    "malformed_user": Problem(422, "Not a user ID"),
    "duplicate_user": Problem(422, "A receiver is named twice"),
    "malformed_opens_at": Problem(422, "Not an instant of RFC 3339"),
    "opens_at_out_of_range": Problem(422, "The start is in the past or too far ahead"),
    "expires_in_out_of_range": Problem(422, "The time to expiry is out of range"),
    # What the envelope or the wallet says
    "not_found": Problem(404, "No such envelope"),
    "not_invited": Problem(403, "The envelope is not for this user"),
    "not_the_sender": Problem(403, "Only the sender may do this"),
    "already_final": Problem(409, "Nothing is left to cancel"),
    "insufficient_funds": Problem(409, "The wallet does not hold that much", Retry.CHANGED),
    "idempotency_key_reused": Problem(422, "The Idempotency-Key was used for another request"),
    "day_closed": Problem(409, "The business day is closed"),
    "create_undone": Problem(409, "The create was undone and the money returned"),
    # A part is away, full or slow
    "busy": _BUSY,
    "envelope_unavailable": _BUSY,
    "no_free_id": _BUSY,
    "peer_down": Problem(503, "A part is away", Retry.LATER, _AWAY),
    "wallet_unavailable": Problem(503, "The wallet is away", Retry.LATER, _AWAY),
    "no_server": Problem(503, "A part is away", Retry.LATER, _AWAY),
    "not_ready": Problem(503, "Parts are not connected yet", Retry.LATER),
    "stopping": Problem(503, "A part is going away", Retry.LATER, _AWAY),
    "not_permitted": Problem(500, "A part of the system lacks a right", Retry.LATER, _AWAY),
    "degraded": Problem(503, "Closed for now by the operators", Retry.LATER),
    "set_paused": Problem(503, "A part is paused", Retry.LATER),
    "wrong_set": _MOVED,
    "being_moved": _MOVED,
    "topology_outdated": _MOVED,
    "database_unavailable": Problem(503, "A database is away", Retry.LATER, _AWAY),
    "standby_missing": Problem(503, "A database confirms nothing until its standby is back", Retry.LATER, _AWAY),
    "archive_unavailable": Problem(503, "The archive of this day is away", Retry.LATER),
    "day_tables_missing": Problem(503, "The tables of this day are missing", Retry.LATER),
    "clocks_differ": Problem(503, "Two parts do not agree which day it is", Retry.LATER, _AWAY),
    "outcome_unknown": Problem(504, "No answer in time", Retry.REPEAT),
    # Our own fault
    "internal_error": _OURS,
    "invariant_broken": Problem(
        500,
        "The envelope is frozen",
        Retry.NEVER,
        "its records do not add up; no money moved, and the fault was logged",
    ),
}
INSIDE: Final = frozenset(
    {"malformed_request", "unknown_operation", "malformed_seed", "unknown_split_version", "order_conflict"}
)
"""Another part refused what this one sent: the two are of different versions, or one is broken. Clients hear
`internal_error`, the log has the code: a client can do nothing else with any of them."""

STATUS_OF: Final[dict[Outcome, int]] = {
    outcome: PROBLEMS[outcome.value].status if outcome in (Outcome.NOT_FOUND, Outcome.BUSY) else 200
    for outcome in Outcome
}
"""An outcome is an answer, 200; `not_found` is 404, and `busy` 503 with Retry-After."""

_UNKNOWN = Problem(504, "No answer in time", Retry.REPEAT)


def public_code(error: HongbaoError) -> str:
    """Return the code that clients see."""
    return "internal_error" if error.code in INSIDE else error.code


def problem_of(error: HongbaoError) -> Problem:
    """Return the row of an error. If its outcome is unknown it is 504 with advice to repeat, unless it is a 500."""
    found = PROBLEMS.get(public_code(error))
    ours = found is not None and found.status == HTTPStatus.INTERNAL_SERVER_ERROR
    if isinstance(error, Unavailable) and not error.outcome_known and not ours:
        return _UNKNOWN
    if found is not None:
        return found
    if isinstance(error, InvariantBroken):
        return _OURS
    return Problem(400, "Refused") if isinstance(error, Refused) else Problem(503, "Not just now", Retry.LATER, _AWAY)
