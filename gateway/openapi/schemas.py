"""JSON Schemas of everything that goes in and out."""

from http import HTTPStatus
from typing import Any, Final

from envelope.limits import LIMITS
from envelope.outcomes import Outcome, State
from envelope.split import Split
from envelope.terms import Kind
from envelope.texts import TEXT_PATTERN
from gateway.identity.share_tokens import SHARE_ID_CHARS, SHARE_TOKEN_CHARS
from gateway.identity.users import USER_PATTERN
from gateway.limits import PAST_OPENS_S
from gateway.problems import ADVICE, PROBLEMS, STATUS_OF, Retry

Schema = dict[str, Any]

ID: Final[Schema] = {
    "type": "string",
    # Years 2010 to 2092; a day that no calendar has is in spite of this 404, as is all else that can name nothing.
    "pattern": "^(1[0-9]|[2-8][0-9]|9[0-2])(0[1-9]|1[0-2])(0[1-9]|[12][0-9]|3[01])[0-9]{13}$",
    "description": "YYMMDD, ten digits, slot: 19 decimal digits, as a string because JSON numbers lose some.",
    "examples": ["2611211234567890007"],
}
USER: Final[Schema] = {"type": "string", "pattern": USER_PATTERN, "examples": ["alice"]}
INSTANT: Final[Schema] = {"type": "string", "format": "date-time", "examples": ["2026-11-21T04:00:00.000Z"]}
FEN: Final[Schema] = {"type": "integer", "minimum": 0, "description": "Whole fen, 1/100 yuan."}
SIGNED_FEN: Final[Schema] = {"type": "integer", "description": "Whole fen; negative where money left the wallet."}
SEQ: Final[Schema] = {"type": "integer", "minimum": 0, "description": "Place in the order of opening, from 0."}
BOOL: Final[Schema] = {"type": "boolean"}
HASH: Final[Schema] = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
SHARE_TOKEN: Final[Schema] = {"type": "string", "minLength": SHARE_TOKEN_CHARS, "maxLength": SHARE_TOKEN_CHARS}
SHARE_ID: Final[Schema] = {"type": "string", "pattern": "^A[A-Za-z0-9_-]{32}$", "maxLength": SHARE_ID_CHARS}
ID_OR_SHARE_ID: Final[Schema] = {
    "type": "string",
    "pattern": f"^({ID['pattern'][1:-1]}|{SHARE_ID['pattern'][1:-1]})$",
    "examples": ID["examples"],
}
PASSWORD: Final[Schema] = {
    "type": ["string", "null"], "minLength": 1, "maxLength": LIMITS.password_chars, "pattern": TEXT_PATTERN,
}  # fmt: skip


def _object(properties: Schema, *, optional: tuple[str, ...] = (), closed: bool = True) -> Schema:
    required = [name for name in properties if name not in optional]
    return {
        "type": "object", "properties": properties, "required": required, "additionalProperties": not closed,
    }  # fmt: skip


def ref(name: str) -> Schema:
    """Return a reference to a schema of this module."""
    return {"$ref": f"#/components/schemas/{name}"}


KIND: Final[Schema] = {**ref("Kind"), "description": "Shares by luck, or even ones."}
STATUS: Final[Schema] = {**ref("Status"), "description": "Once it is sold out, expired or canceled, it stays so."}

CREATE: Final = _object(
    {
        "kind": KIND,
        "total_fen": {**FEN, "minimum": 1, "maximum": LIMITS.max_total_fen},
        "count": {
            "type": "integer", "minimum": 1, "maximum": LIMITS.max_count,
            "description": "Shares; at most total_fen, and at most the receivers named in `to`.",
        },
        "greeting": {
            "type": ["string", "null"], "maxLength": LIMITS.greeting_chars, "pattern": TEXT_PATTERN,
            "description": "The sender's words, shown on the cover.",
        },
        "to": {
            "type": ["array", "null"], "items": USER, "minItems": 1, "maxItems": LIMITS.invited_users,
            "uniqueItems": True, "description": "Only these users may open it (专属).",
        },
        "password": {**PASSWORD, "description": "Needed to open it (口令)."},
        "opens_at": {
            "type": ["string", "null"], "format": "date-time",
            "description": f"Nobody can open before; at most {LIMITS.max_opens_in_s} seconds ahead, and with "
            f"expires_in_s at most {LIMITS.max_lives_s}. One that is past means at once, so that a create can be "
            f"repeated; more than {PAST_OPENS_S} seconds ago it is refused.",
        },
        "expires_in_s": {
            "type": ["integer", "null"], "minimum": LIMITS.min_expires_in_s, "maximum": LIMITS.max_expires_in_s,
            "description": f"Seconds it stays open, {LIMITS.default_expires_in_s} unless said.",
        },
        "split": {
            "anyOf": [ref("Split"), {"type": "null"}],
            "description": "How shares are cut; `equal` is for kind equal, all others for kind lucky.",
        },
        "min_fen": {
            "type": ["integer", "null"], "minimum": 1,
            "description": "Least share of a lucky envelope; `min_fen` x `count` fits into the total.",
        },
        "max_fen": {
            "type": ["integer", "null"], "minimum": 1,
            "description": "Largest share of a lucky envelope; `max_fen` x `count` covers the total.",
        },
    },
    optional=("greeting", "to", "password", "opens_at", "expires_in_s", "split", "min_fen", "max_fen"),
)  # fmt: skip

ASK: Final = _object(
    {
        "share_token": {"type": ["string", "null"], "description": "Or in the header X-Share-Token."},
        "password": {**PASSWORD, "description": "Needed where the envelope has one (`password_required`)."},
    },
    optional=("share_token", "password"),
)

_SHARES: Final[Schema] = {"type": "integer", "minimum": 1, "description": "How many shares there are."}
_OPENED: Final[Schema] = {"type": "integer", "minimum": 0, "description": "How many shares are opened."}
CLOSED_AT: Final[Schema] = {**INSTANT, "description": "When it was canceled, or closed after its expiry."}
OPENS_AT: Final[Schema] = {**INSTANT, "description": "Before this instant nobody can open the envelope."}
_ENVELOPE: Final[Schema] = {
    "envelope_id": ID,
    "status": STATUS,
    "sender": {**USER, "description": "The user who sent it."},
    "kind": KIND,
    "split": {**ref("Split"), "description": "How the shares are cut."},
    "split_version": {"type": "integer", "minimum": 1, "description": "Of the formula that cuts the shares."},
    "split_commitment": {**HASH, "description": "SHA-256 of the split's seed, which is shown after the close."},
    "total_fen": FEN,
    "count": _SHARES,
    "greeting": {"type": "string", "description": "The sender's words; may be empty."},
    "password_required": {**BOOL, "description": "An open must give a password."},
    "created_at": {**INSTANT, "description": "When the create was begun."},
    "opens_at": OPENS_AT,
    "expires_at": {**INSTANT, "description": "What is left then goes back to the sender."},
    "min_fen": {**FEN, "description": "Least share, if the sender gave one."},
    "max_fen": {**FEN, "description": "Largest share, if the sender gave one."},
    "to": {"type": "array", "items": USER, "description": "Shown to the sender."},
    "share_token": {**SHARE_TOKEN, "description": "Shown to the sender: whoever has it may see and open."},
    "share_id": {**SHARE_ID, "description": "Shown to the sender: ID and share token in one, for a link."},
}
ENVELOPE: Final = _object(_ENVELOPE, optional=("to", "min_fen", "max_fen"))
CLAIM: Final = _object(
    {
        "seq": SEQ,
        "user": {**USER, "description": "The user who opened it."},
        "amount_fen": FEN,
        "claimed_at": {**INSTANT, "description": "When it was opened."},
    }
)
DETAIL: Final = _object(
    {
        **_ENVELOPE,
        "claimed_count": _OPENED,
        "claimed_fen": FEN,
        "claims": {"type": "array", "items": ref("Claim"), "description": "Oldest first; a page of them."},
        "next_cursor": {
            "type": ["string", "null"],
            "description": "For the page of claims after this one; null if there is none. Sums are of all claims.",
        },
        "best_luck": {**ref("Claim"), "description": "Once all are taken; of equals the first."},
        "refund_fen": FEN,
        "closed_at": CLOSED_AT,
        "split_seed": {**HASH, "description": "Once nothing can change: recompute every amount from it."},
        "archived": {**BOOL, "const": True, "description": "Its day is closed for good; open and grab answer expired."},
    },
    optional=(
        "to",
        "min_fen",
        "max_fen",
        "share_token",
        "share_id",
        "best_luck",
        "refund_fen",
        "closed_at",
        "split_seed",
        "archived",
    ),
)

LIVE_FRAME: Final = _object(
    {
        "envelope_id": ID,
        "status": STATUS,
        "count": _SHARES,
        "claimed_count": _OPENED,
        "claimed_fen": FEN,
        "claims": {
            "type": "array",
            "items": ref("Claim"),
            "description": "New ones, oldest first; at first the newest 20.",
        },
        "best_luck": {**ref("Claim"), "description": "Once all are taken."},
        "refund_fen": FEN,
        "closed_at": CLOSED_AT,
    },
    optional=("best_luck", "refund_fen", "closed_at"),
)

RESULT: Final = _object(
    {
        "result": {
            "type": "string",
            "enum": [one for one in Outcome if STATUS_OF[one] == HTTPStatus.OK],
            "description": "opened is an open's, openable a grab's; all others say why nothing was or would be won.",
        },
        "amount_fen": {**FEN, "minimum": 1, "description": "Where the user holds a share, as seq and last."},
        "seq": SEQ,
        "last": {**BOOL, "description": "Whether it was the last share."},
        "opens_at": {**OPENS_AT, "description": "With not_started: nobody can open it before."},
        "password_required": {**BOOL, "description": "With openable and wrong_password: an open must give a password."},
        "detail": {"type": "string", "description": "With not_invited: who may open it."},
        "tries_left": {
            "type": "integer",
            "minimum": 0,
            "maximum": LIMITS.wrong_password_tries,
            "description": "How many wrong passwords this user may still give for this envelope. With 0 the answer is "
            "wrong_password for good, also to the right one. An open without a password costs no try.",
        },
    },
    optional=("amount_fen", "seq", "last", "opens_at", "password_required", "detail", "tries_left"),
    closed=False,
)

WALLET: Final = _object({"user": {**USER, "description": "Whose it is."}, "balance_fen": FEN})
ENTRY: Final = _object(
    {
        "entry_id": {"type": "string", "description": "Names this entry; the same in every answer."},
        "order_no": {"type": "string", "description": "The number of the transfer: money moves once under it."},
        "kind": {
            "type": "string",
            "description": "deposit: money came in from outside. fund: the user sent an envelope, and its total left "
            "the wallet. claim: a share that the user opened came in. refund: what was left of an envelope that the "
            "user sent came back. claim_outside: a share that the user opened was paid to them by a payment channel, "
            "and the wallet holds what it held. There may be more kinds.",
        },
        "amount_fen": SIGNED_FEN,
        "envelope_id": {**ID, "type": ["string", "null"]},
        "at": {**INSTANT, "description": "When the money moved."},
    }
)
_COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
TOTALS: Final = _object(
    {
        "year": {"type": "integer", "description": "As asked, in the installation's time zone."},
        "received_count": {**_COUNT, "description": "How many shares the user opened."},
        "received_fen": FEN,
        "sent_count": {**_COUNT, "description": "How many envelopes the user sent."},
        "sent_fen": FEN,
        "refunded_fen": {**FEN, "description": "What came back of envelopes that the user sent."},
    }
)
UNAVAILABLE: Final = "unavailable"
MINE: Final = _object(
    {
        "envelope_id": ID,
        "amount_fen": {
            **FEN,
            "description": "Of one sent the total, of one received the user's share; of one waiting none.",
        },
        "at": {**INSTANT, "description": "When it was sent, or opened by the user."},
        "status": {
            "type": "string",
            "enum": [*State, UNAVAILABLE],
            "description": f"{UNAVAILABLE}: the envelope cannot be shown now; the members after this one are missing.",
        },
        **{
            name: _ENVELOPE[name]
            for name in ("sender", "kind", "greeting", "total_fen", "count", "opens_at", "expires_at")
        },
        "claimed_count": _OPENED,
        "claimed_fen": FEN,
        "refund_fen": {**FEN, "description": "Once what was left has gone back to the sender."},
        "best_luck": {
            **BOOL,
            "description": "Where the user holds a share: whether it is the best of all. True only once all are taken.",
        },
    },
    optional=(
        "amount_fen",
        "sender",
        "kind",
        "greeting",
        "total_fen",
        "count",
        "opens_at",
        "expires_at",
        "claimed_count",
        "claimed_fen",
        "refund_fen",
        "best_luck",
    ),
)


def _page(item: str, **more: Schema) -> Schema:
    members = {
        "items": {"type": "array", "items": ref(item), "description": "Newest first."},
        "next_cursor": {
            "type": ["string", "null"],
            "description": "For the page after this one; null if there is none.",
        },
        **more,
    }
    return _object(members, optional=tuple(more))


INCOMPLETE: Final[Schema] = {
    **BOOL,
    "const": True,
    "description": "Of what is waiting: a SET could not be asked, so some may be missing.",
}


PROBLEM: Final = _object(
    {
        "type": {"type": "string", "format": "uri-reference", "description": "Where the code is explained."},
        "title": {"type": "string", "description": "The code as a sentence, for people; may change."},
        "status": {"type": "integer", "minimum": 400, "maximum": 599, "description": "That of the answer."},
        "detail": {"type": "string", "description": "What it was this time, for people; may change."},
        "code": {"type": "string", "enum": sorted(PROBLEMS), "description": "Programs decide by it."},
        "retry": {
            "type": "string", "enum": [*Retry],
            "description": " ".join(f"{word}: {text}" for word, text in ADVICE.items()),
        },
        "request_id": {"type": "string", "description": "Operators find the request in their logs by it."},
        "result": {
            "type": "string", "enum": [one for one in Outcome if STATUS_OF[one] != HTTPStatus.OK],
            "description": "Of a grab, an open or a cancel whose outcome is a problem.",
        },
    },
    optional=("result",),
)  # fmt: skip
PLAY_USERS: Final = _object({"users": {"type": "array", "items": USER, "minItems": 1, "description": "To play with."}})
PLAY_USER: Final = _object({"user": {"type": "string", "description": "One of those to play with."}})
PLAY_TOKEN: Final = _object(
    {
        "user": {**USER, "description": "Whose token it is."},
        "token": {"type": "string", "description": "For the header Authorization: Bearer."},
        "expires_at": {**INSTANT, "description": "Refused from then on."},
    }
)
HEALTH: Final = _object({"status": {"type": "string", "const": "ok", "description": "The process answers."}})
READINESS: Final = _object(
    {
        "status": {"type": "string", "const": "ready", "description": "Users can be served."},
        "sets_away": {"type": "integer", "minimum": 0, "description": "SETs of which no server can be called now."},
        "wallet_away": {"type": "boolean", "const": True, "description": "Creates and balances are refused."},
        "sandbox_now": {**INSTANT, "description": "What time it is in a sandbox; only there."},
    },
    optional=("wallet_away", "sandbox_now"),
)

SCHEMAS: Final[dict[str, Schema]] = {
    "Kind": {"type": "string", "enum": [*Kind], "description": "Shares by luck, or even ones."},
    "Split": {"type": "string", "enum": [*Split], "description": "How shares are cut."},
    "Status": {"type": "string", "enum": [*State], "description": "The last three are final."},
    "CreateEnvelope": CREATE,
    "Ask": ASK,
    "Envelope": ENVELOPE,
    "Claim": CLAIM,
    "Detail": DETAIL,
    "LiveFrame": LIVE_FRAME,
    "Result": RESULT,
    "Wallet": WALLET,
    "Entry": ENTRY,
    "EntryPage": _page("Entry"),
    "MyEnvelope": MINE,
    "MyEnvelopePage": _page("MyEnvelope", incomplete=INCOMPLETE),
    "Totals": TOTALS,
    "Problem": PROBLEM,
    "PlayUsers": PLAY_USERS,
    "PlayUser": PLAY_USER,
    "PlayToken": PLAY_TOKEN,
    "Health": HEALTH,
    "Readiness": READINESS,
}
