"""What each operation of `gateway.routes` does: parameters, body, and the answers that are no problems."""

from typing import Any, Final, NamedTuple

from gateway.http.request_ids import REQUEST_ID_CHARS
from gateway.limits import (
    CLAIMS_PAGE,
    CLAIMS_PAGE_MOST,
    DEFAULT_PAGE,
    LIVE_ENVELOPES,
    LIVE_STREAMS_OF_USER,
    PAGE,
    TIMEOUTS_S,
)
from gateway.live.events import EVENT_STREAM
from gateway.openapi.schemas import ID_OR_SHARE_ID, Schema, ref
from gateway.parsing.paging import CURSOR_PATTERN
from gateway.parsing.parameters import KEY_PATTERN, ROLES, YEARS

JSON: Final = "application/json"


def _parameter(name: str, where: str, schema: Schema, description: str, *, required: bool = False) -> Schema:
    return {"name": name, "in": where, "required": required, "schema": schema, "description": description}


PARAMETERS: Final[dict[str, Schema]] = {
    "id": _parameter(
        "id", "path", ID_OR_SHARE_ID, "Its ID, or a share ID in place of ID and share token.", required=True
    ),
    "key": _parameter(
        "Idempotency-Key",
        "header",
        {"type": "string", "pattern": KEY_PATTERN},
        "New for every new envelope; the same when a create is repeated.",
        required=True,
    ),
    "share": _parameter("X-Share-Token", "header", {"type": "string"}, "The share token, as the sender gave it."),
    "share_query": _parameter("share_token", "query", {"type": "string"}, "The share token, in a link."),
    "timeout": _parameter(
        "X-Request-Timeout-Ms",
        "header",
        {"type": "string"},
        "How many milliseconds the client waits for the answer: the request is not begun after that. Read as "
        f"{TIMEOUTS_S[0] * 1000:.0f} to {TIMEOUTS_S[1] * 1000:.0f}; what is no number is ignored.",
    ),
    "request_id": _parameter(
        "X-Request-Id",
        "header",
        {"type": "string"},
        f"The client's own name for the request: 1 to {REQUEST_ID_CHARS} letters, digits, `.`, `_` or `-`. It is sent "
        "back and found in our logs. Any other text is ignored.",
    ),
    "known": _parameter(
        "If-None-Match",
        "header",
        {"type": "string"},
        "The ETag of the answer that the client has: if nothing has changed since, the answer is 304 without a body.",
    ),
    "limit": _parameter(
        "limit",
        "query",
        {"type": "integer", "minimum": 1, "maximum": PAGE, "default": DEFAULT_PAGE},
        "How many at most.",
    ),
    "cursor": _parameter(
        "cursor", "query", {"type": "string", "pattern": CURSOR_PATTERN}, "next_cursor of the page before."
    ),
    "claims_limit": _parameter(
        "limit",
        "query",
        {"type": "integer", "minimum": 1, "maximum": CLAIMS_PAGE_MOST, "default": CLAIMS_PAGE},
        "How many claims at most.",
    ),
    "claims_cursor": _parameter(
        "cursor", "query", {"type": "string", "pattern": "^[1-9][0-9]*$"}, "next_cursor of the page before."
    ),
    "envelopes": _parameter(
        "envelopes", "query", {"type": "string"}, "IDs or share IDs, with commas between.", required=True
    ),
    "last_event_id": _parameter("Last-Event-ID", "header", {"type": "string"}, "The `id` of the last event."),
    "year": _parameter(
        "year",
        "query",
        {"type": "integer", "minimum": YEARS[0], "maximum": YEARS[-1]},
        "Which year, in four digits.",
        required=True,
    ),
    "role": _parameter("role", "query", {"type": "string", "enum": [*ROLES]}, "Which list.", required=True),
}

_LUCKY: Final = {
    "summary": "20 yuan in 20 shares of luck",
    "value": {"kind": "lucky", "total_fen": 2000, "count": 20, "greeting": "恭喜发财"},
}
_NAMED: Final = {
    "summary": "For two people, evenly, with a password, for an hour",
    "value": {
        "kind": "equal", "total_fen": 1000, "count": 2, "to": ["bob", "carol"], "password": "年年有余",
        "expires_in_s": 3600,
    },
}  # fmt: skip
_TOKEN: Final = {"summary": "With the token of a link", "value": {"share_token": "AAECAwQFBgcICQoLDA0ODw"}}
_ALICE: Final = {"summary": "As alice", "value": {"user": "alice"}}
_SPOKEN: Final = {"summary": "With a password", "value": {"password": "年年有余"}}


class Operation(NamedTuple):
    """`answers` maps a status to (description, media type, schema); without a media type the answer has no body.

    Its problems stand in `refusals`.
    """

    summary: str
    description: str
    answers: dict[int, tuple[str, str, Schema]]
    parameters: tuple[str, ...] = ()
    body: str | None = None
    body_required: bool = False
    examples: dict[str, Any] = {}  # noqa: RUF012 - never changed
    public: bool = False


def _ok(description: str, schema: Schema, status: int = 200, media: str = JSON) -> dict[int, tuple[str, str, Schema]]:
    return {status: (description, media, schema)}


OPERATIONS: Final[dict[str, Operation]] = {
    "createEnvelope": Operation(
        "Send an envelope",
        "Takes total_fen from the sender's wallet and cuts it into shares.\n\nSafe to repeat: the same Idempotency-Key "
        "and body give the same answer, with the header Idempotency-Replayed: true; with another body 422.",
        _ok("Made, now or before", ref("Envelope"), 201),
        ("key",),
        "CreateEnvelope",
        body_required=True,
        examples={"lucky": _LUCKY, "named": _NAMED},
    ),
    "getEnvelope": Operation(
        "Look at an envelope",
        "State, claims so far in pages, oldest first, best luck once all are taken, refund, and after the close the "
        "seed that proves the split.",
        {**_ok("The envelope as it is now", ref("Detail")), 304: ("It is as the client has it", "", {})},
        ("id", "share", "share_query", "claims_limit", "claims_cursor", "known"),
    ),
    "openEnvelope": Operation(
        "Open a share",
        "Answered once the claim is durable. Safe to repeat: the result is then already_opened, with the same amount. "
        "Once the envelope's day is archived it is expired; the claims stand in the detail, in lists and statements.",
        _ok("What came of it", ref("Result")),
        ("id", "share"),
        "Ask",
        examples={"token": _TOKEN, "password": _SPOKEN},
    ),
    "grabEnvelope": Operation(
        "Ask whether a share can be opened",
        "Cheap; promises nothing: another may be faster.",
        _ok("How it stands", ref("Result")),
        ("id", "share"),
        "Ask",
        examples={"token": _TOKEN},
    ),
    "cancelEnvelope": Operation(
        "Take an envelope back",
        "Closes it now and refunds what is left. Only its sender may; safe to repeat.",
        _ok("The envelope, closed", ref("Detail")),
        ("id",),
    ),
    "watchEnvelopes": Operation(
        "Watch envelopes live",
        "A stream of server-sent events. First what each envelope is now, then each change, some times a second at "
        "most, after its commit.\n\n`event: envelope`: `data` is a LiveFrame, `id` names its version; with it in the "
        "header Last-Event-ID what has been seen is not sent again. A client that has missed claims (their `seq` has a "
        "gap) asks for the detail. `event: refused`: an envelope that this user may not see; `data` is `{envelope, "
        "code, detail}`. `event: end`: the stream ends, `data` is `{reason}` (token_expired, age, leaving); come back "
        "after `retry` ms.\n\n"
        "A browser reads it with fetch and the reader of its body: an EventSource cannot send the header "
        "Authorization, and a token never stands in an address.\n\n"
        f"At most {LIVE_ENVELOPES} envelopes a stream and {LIVE_STREAMS_OF_USER} streams a user.",
        _ok(
            "The stream; `data` of its envelope events",
            {"type": "string", "contentMediaType": JSON, "contentSchema": ref("LiveFrame")},
            media=EVENT_STREAM,
        ),
        ("envelopes", "last_event_id"),
    ),
    "getWallet": Operation("The balance", "What the user's wallet holds.", _ok("The wallet", ref("Wallet"))),
    "listWalletEntries": Operation(
        "The statement",
        "Every movement of the user's wallet, newest first.",
        _ok("A page", ref("EntryPage")),
        ("limit", "cursor"),
    ),
    "listMyEnvelopes": Operation(
        "Envelopes sent, received or waiting",
        "Newest first, each as it is now. An envelope that cannot be shown at the moment, because its SET or its "
        "archive is away, has the status unavailable and nothing after it; the page is answered all the same.\n\n"
        "Waiting are envelopes that name the user in `to`, that are open or scheduled, and that the user has not "
        "opened. A page of them may be short, or empty, and still have a next_cursor.",
        _ok("A page", ref("MyEnvelopePage")),
        ("role", "limit", "cursor"),
    ),
    "listPlayUsers": Operation(
        "Users to play with",
        "For development: as whom one may sign in without a password. Off unless the installation names users.",
        _ok("Their names", ref("PlayUsers")),
        public=True,
    ),
    "makePlayToken": Operation(
        "Sign in to play",
        "For development: a bearer token for one of them. Elsewhere your own service makes tokens.",
        _ok("The token", ref("PlayToken")),
        body="PlayUser",
        body_required=True,
        examples={"alice": _ALICE},
        public=True,
    ),
    "getTotals": Operation(
        "A year in sums",
        "Shares that the user received, envelopes that they sent, and what came back of these, by the times of the "
        "statement; years begin at midnight of the installation's time zone.",
        _ok("The sums", ref("Totals")),
        ("year",),
    ),
    "getOpenApi": Operation("This document", "OpenAPI 3.1.", _ok("The document", {"type": "object"}), public=True),
    "getDocs": Operation(
        "This document to read",
        "One page without script.",
        _ok("The page", {"type": "string"}, media="text/html"),
        public=True,
    ),
    "getHealth": Operation("Is it alive", "The process answers.", _ok("It does", ref("Health")), public=True),
    "getReadiness": Operation(
        "Is it ready",
        "A SET is connected, and the wallet was. `sets_away` SETs are not: their envelopes answer 503, others do not. "
        "`wallet_away`: what needs the wallet answers 503, opens go on.",
        _ok("It is", ref("Readiness")),
        public=True,
    ),
    "getMetrics": Operation(
        "Metrics",
        "Prometheus text, for whoever has the installation's metrics key.",
        _ok("The metrics", {"type": "string"}, media="text/plain"),
        public=True,
    ),
}
