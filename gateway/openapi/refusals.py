"""Which problems each operation can answer, by code. Groups are named for what raises them.

tests/unit/gateway/test_openapi.py holds them against the sources: a code that a module raises is listed for every
operation that runs through it, but for those that clients never see (`problems.INSIDE`). The clients of the HTTP tests
and the fuzzer fail on a code that is not listed.
"""

from typing import Final

from gateway.problems import PROBLEMS

Codes = tuple[str, ...]

ANY: Final[Codes] = ("malformed_http", "busy", "internal_error")
"""The server itself, before and around every handler."""
TOKEN: Final[Codes] = (
    "token_missing", "token_expired", "token_invalid", "too_many_rejected_tokens", "too_many_requests"
)  # fmt: skip
ID: Final[Codes] = ("malformed_envelope_id", "share_id_invalid", "impossible_day", "future_envelope_id", "unknown_slot")
BODY: Final[Codes] = (
    "body_timeout", "body_too_large", "unsupported_media_type", "malformed_json", "duplicate_field", "unknown_field",
    "wrong_type",
)  # fmt: skip
PASSWORD: Final[Codes] = ("password_length", "control_character")
KEY: Final[Codes] = ("idempotency_key_missing", "malformed_idempotency_key")
TERMS: Final[Codes] = (
    *("missing_field", "unknown_kind", "unknown_split", "split_not_for_kind", "malformed_amount"),
    *("amount_out_of_range", "malformed_count", "count_out_of_range", "count_exceeds_total", "count_exceeds_invited"),
    *("greeting_too_long", "too_few_users", "too_many_users", "malformed_user", "duplicate_user"),
    *("bounds_not_for_kind", "bounds_not_possible"),
    *("malformed_opens_at", "opens_at_out_of_range", "expires_in_out_of_range"),
)
PAGE: Final[Codes] = ("unknown_parameter", "repeated_parameter", "malformed_limit", "malformed_cursor")
LINK: Final[Codes] = ("peer_down", "stopping", "outcome_unknown", "database_unavailable", "not_permitted")
"""What the link to another part raises, and what any part may answer."""
WALLET: Final[Codes] = ("wallet_unavailable",)
"""What the wallet's client raises in the place of `peer_down`."""
SET: Final[Codes] = (
    *LINK, "no_server", "wrong_set", "being_moved", "topology_outdated", "invariant_broken", "archive_unavailable",
    "set_paused",
)  # fmt: skip
WRITES: Final[Codes] = ("standby_missing",)
"""Of what needs a commit, where Postgres replicates synchronously."""
DAILY: Final[Codes] = ("daily_wins_reached", "daily_opens_of_sender_reached")
"""Where a daily limit is set; an open needs the wallet then."""
ACTOR: Final[Codes] = ("not_found", "envelope_unavailable")
CREATOR: Final[Codes] = (
    *("insufficient_funds", "idempotency_key_reused", "create_undone", "day_closed", "no_free_id"),
    *("day_tables_missing", "clocks_differ"),
)

_ENVELOPE: Final[Codes] = (*ANY, *TOKEN, *ID, *SET, *ACTOR)
_LIST: Final[Codes] = (*ANY, *TOKEN, *PAGE, *LINK, *WALLET, "degraded")

REFUSALS: Final[dict[str, Codes]] = {
    "createEnvelope": (*ANY, *TOKEN, *KEY, *BODY, *PASSWORD, *TERMS, *SET, *WRITES, *CREATOR, *WALLET, "degraded"),
    "getEnvelope": (*_ENVELOPE, "degraded", "not_invited", "repeated_parameter", "malformed_limit", "malformed_cursor"),
    "openEnvelope": (*_ENVELOPE, *WRITES, *BODY, *PASSWORD, *WALLET, "degraded", "too_soon", *DAILY),
    "grabEnvelope": (*_ENVELOPE, *BODY, *PASSWORD, "degraded"),
    "cancelEnvelope": (*_ENVELOPE, *WRITES, "not_invited", "not_the_sender", "already_final"),
    "watchEnvelopes": (
        *(*_ENVELOPE, "degraded", "not_invited", "malformed_envelopes", "too_many_streams"),
        *("unknown_parameter", "repeated_parameter"),
    ),
    "getWallet": (*ANY, *TOKEN, *LINK, *WALLET),
    "listWalletEntries": _LIST,
    "listMyEnvelopes": (*_LIST, "unknown_role"),
    "listPlayUsers": (*ANY, "play_users_off"),
    "makePlayToken": (*ANY, *BODY, "missing_field", "play_users_off", "unknown_play_user"),
    "getTotals": (
        *(*ANY, *TOKEN, *LINK, *WALLET, "degraded"),
        *("unknown_parameter", "repeated_parameter", "malformed_year"),
    ),
    "getOpenApi": ANY,
    "getDocs": ANY,
    "getHealth": ANY,
    "getReadiness": (*ANY, "not_ready"),
    "getMetrics": (*ANY, "metrics_key_missing"),
}
"""By the names of `gateway.routes`."""

NO_ROUTE_CODES: Final = frozenset({"route_not_found", "method_not_allowed"})
"""Codes of the answers to requests that fit no route."""

_HALF_WAY: Final = frozenset({"createEnvelope"})
"""Operations with two commits: a part may go away between them, and then a 503 becomes 504 under the same code."""
_AWAY, _IN_DOUBT = 503, 504


def by_status(name: str) -> dict[int, Codes]:
    """Return the codes that an operation can answer, by HTTP status in rising order."""
    found: dict[int, list[str]] = {}
    for code in REFUSALS[name]:
        found.setdefault(PROBLEMS[code].status, []).append(code)
    if name in _HALF_WAY:
        found[_IN_DOUBT] += found[_AWAY]
    return {status: tuple(found[status]) for status in sorted(found)}
