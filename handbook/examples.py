"""An example answer of each operation. tests/unit/handbook/test_reference.py holds each against its schema."""

from typing import Any, Final

_ID: Final = "2611211234567890007"
_SHARE_TOKEN: Final = "AAECAwQFBgcICQoLDA0ODw"  # noqa: S105 - of an envelope that never was
_SEED_HASH: Final = "66687aadf862bd776c8fc18b8e9f8e20089714856ee233b3902a591d0d5f2925"
_CLAIM: Final = {"seq": 0, "user": "bob", "amount_fen": 618, "claimed_at": "2026-11-21T04:00:02.310Z"}
_ENVELOPE: Final[dict[str, Any]] = {
    "envelope_id": _ID,
    "status": "open",
    "sender": "alice",
    "kind": "lucky",
    "split": "double_mean",
    "split_version": 2,
    "split_commitment": _SEED_HASH,
    "total_fen": 2000,
    "count": 3,
    "greeting": "恭喜发财",
    "password_required": False,
    "created_at": "2026-11-21T04:00:00.000Z",
    "opens_at": "2026-11-21T04:00:00.000Z",
    "expires_at": "2026-11-22T04:00:00.000Z",
}
_SENDERS: Final = {"share_token": _SHARE_TOKEN, "share_id": "AJDziyHXtpFcAAQIDBAUGBwgJCgsMDQ4P"}
_DETAIL: Final = {**_ENVELOPE, "claimed_count": 1, "claimed_fen": 618, "claims": [_CLAIM], "next_cursor": None}
_FRAME: Final = (
    '{"envelope_id":"2611211234567890007","status":"open","count":3,"claimed_count":1,"claimed_fen":618,'
    '"claims":[{"seq":0,"user":"bob","amount_fen":618,"claimed_at":"2026-11-21T04:00:02.310Z"}]}'
)

ANSWERS: Final[dict[str, Any]] = {
    "createEnvelope": {**_ENVELOPE, **_SENDERS},
    "getEnvelope": _DETAIL,
    "openEnvelope": {"result": "opened", "amount_fen": 618, "seq": 0, "last": False},
    "grabEnvelope": {"result": "openable"},
    "cancelEnvelope": {
        **_DETAIL, **_SENDERS, "status": "canceled", "refund_fen": 1382, "closed_at": "2026-11-21T04:05:00.000Z",
        "split_seed": "00" * 32,
    },
    "watchEnvelopes": f"retry: 1000\n\nevent: envelope\nid: {_ID}.1.open\ndata: {_FRAME}\n",
    "getWallet": {"user": "bob", "balance_fen": 20618},
    "listWalletEntries": {
        "items": [
            {
                "entry_id": "4711", "order_no": f"{_ID}.0", "kind": "claim", "amount_fen": 618, "envelope_id": _ID,
                "at": "2026-11-21T04:00:02.330Z",
            }
        ],
        "next_cursor": None,
    },
    "listMyEnvelopes": {
        "items": [
            {
                "envelope_id": _ID, "amount_fen": 618, "at": "2026-11-21T04:00:02.310Z", "status": "open",
                "sender": "alice", "kind": "lucky", "greeting": "恭喜发财", "total_fen": 2000, "count": 3,
                "opens_at": "2026-11-21T04:00:00.000Z", "expires_at": "2026-11-22T04:00:00.000Z",
                "claimed_count": 1, "claimed_fen": 618, "best_luck": False,
            }
        ],
        "next_cursor": None,
    },
    "listPlayUsers": {"users": ["alice", "bob"]},
    "makePlayToken": {"user": "alice", "token": "eyJhbGciOi…", "expires_at": "2026-11-22T04:00:00.000Z"},
    "getTotals": {
        "year": 2026, "received_count": 42, "received_fen": 18888, "sent_count": 3, "sent_fen": 6000,
        "refunded_fen": 1382,
    },
    "getOpenApi": {"openapi": "3.1.0", "info": {"title": "hongbao"}, "paths": {}},
    "getHealth": {"status": "ok"},
    "getReadiness": {"status": "ready", "sets_away": 0},
    "getDocs": "<!doctype html>…",
    "getMetrics": "# HELP hongbao_http_in_flight Requests being answered\n# TYPE hongbao_http_in_flight gauge\n"
    "hongbao_http_in_flight 3.0\n",
}  # fmt: skip
"""By operation: the JSON of its answer, or the text where it is no JSON."""
