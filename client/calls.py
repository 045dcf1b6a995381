"""Each call of the API as data: what is sent, and how the answer is read. Nothing here does any input or output.

Whoever has a connection of their own (`loadtest` drives locust's and raw sockets) sends a `Call` and hands the answer
to `Call.read`; the client of this room (`client.connection`) does the same with aiohttp.
"""

import re
import uuid
from base64 import urlsafe_b64decode
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final, Generic, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from .errors import NOT_THE_APIS, ApiError, OutcomeUnknown, Unreachable, error_of, unreadable
from .models import (
    Detail,
    EntryPage,
    Envelope,
    MinePage,
    PlayToken,
    PlayUsers,
    Result,
    Totals,
    Wallet,
)

T = TypeVar("T")
Named = Envelope | str
"""How a call names an envelope: as the answer that made or showed it, or as its ID or share ID."""

_encode: Final = msgspec.json.Encoder().encode
IDEMPOTENCY_KEY: Final = "Idempotency-Key"
_MULTIPLE_CHOICES: Final = 300
_TELLS_OF_ALL: Final = frozenset({"create_undone"})
"""Refusals that tell what all attempts under one key came to: none has left anything behind, answered or not."""
_is_share_id: Final = re.compile(r"A[A-Za-z0-9_-]{32}", re.ASCII).fullmatch


class Call(msgspec.Struct, Generic[T], frozen=True):
    """A request. `path` includes the query; `headers` leaves out the bearer token and the length."""

    method: str
    path: str
    decode: Callable[[bytes, Mapping[str, str]], T]
    body: bytes = b""
    headers: Mapping[str, str] = {}

    def read(self, status: int, headers: Mapping[str, str], body: bytes) -> T:
        """Return the answer's value; raises ApiError, by what the gateway says. Headers are named as it writes them."""
        if status < _MULTIPLE_CHOICES:
            try:
                return self.decode(body, headers)
            except NOT_THE_APIS as error:
                raise unreadable(error) from error
        raise error_of(status, body, headers.get("Retry-After"), headers.get("X-Request-Id", ""))


def settled(error: ApiError, call: Call[Any], *, unknown: bool) -> ApiError:
    """Return what a call ended with, after its last attempt; `unknown`: the outcome of an earlier one never came.

    Once unknown, the outcome stays unknown: a later refusal says nothing about the first attempt, but for those in
    _TELLS_OF_ALL. A read changes nothing, so its last refusal stands.
    """
    stays = isinstance(error, OutcomeUnknown) and not isinstance(error, Unreachable)
    if unknown and call.method == "POST" and not stays and error.code not in _TELLS_OF_ALL:
        how = "had no connection" if isinstance(error, Unreachable) else "was refused"
        told = f"an earlier attempt of this request had no answer, the last one {how}: {error}"
        error = OutcomeUnknown(error.code, told, status=error.status, retry_after_s=error.retry_after_s)
    error.idempotency_key = call.headers.get(IDEMPOTENCY_KEY, "")
    return error


def name_of(envelope: Named) -> str:
    """Return how a path names an envelope: by its share ID where that is known, which lets anybody see and open it."""
    return envelope if isinstance(envelope, str) else _checked(envelope).share_id or envelope.envelope_id


def id_of(envelope: Named) -> str:
    """Return an envelope's ID, also by its share ID, whose first bytes are the ID; other texts stay as they are."""
    if not isinstance(envelope, str):
        return _checked(envelope).envelope_id
    if not _is_share_id(envelope):
        return envelope
    return str(int.from_bytes(urlsafe_b64decode(envelope[1:13])[:8]))


def _checked(envelope: Envelope) -> Envelope:
    # An ID is often a number in a database of one's own, and what a list yields is no Envelope.
    if not isinstance(envelope, Envelope):
        raise TypeError(
            "an envelope is named by what create or detail returned, or by its ID or share ID as a text, "
            f"not by {type(envelope).__name__}: {envelope!r:.50}"
        )
    return envelope


def create(
    *,
    total_fen: int,
    count: int,
    kind: str = "lucky",
    greeting: str | None = None,
    to: list[str] | None = None,
    password: str | None = None,
    opens_at: datetime | None = None,
    expires_in_s: int | None = None,
    split: str | None = None,
    min_fen: int | None = None,
    max_fen: int | None = None,
    idempotency_key: str | None = None,
) -> Call[Envelope]:
    """Make an envelope. A repeat of the same call, or another one with the same key and terms, makes no second one."""
    terms: dict[str, Any] = {
        "kind": kind,
        "total_fen": total_fen,
        "count": count,
        "greeting": greeting,
        "to": to,
        "password": password,
        "opens_at": opens_at,
        "expires_in_s": expires_in_s,
        "split": split,
        "min_fen": min_fen,
        "max_fen": max_fen,
    }
    # Also of a text: one would reach the gateway as it stands, or fail here without a reason.
    if opens_at is not None and getattr(opens_at, "tzinfo", None) is None:
        raise ValueError(f"opens_at is a datetime with a time zone, such as datetime.now(UTC), not {opens_at!r}")
    body = _encode({name: value for name, value in terms.items() if value is not None})
    headers = {**_JSON, IDEMPOTENCY_KEY: uuid.uuid4().hex if idempotency_key is None else idempotency_key}
    return Call("POST", "/v1/envelopes", _envelope, body, headers)


def open_(envelope: Named, *, password: str | None = None) -> Call[Result]:
    """Claim a share. The answer comes after the commit; a repeat is answered with the same share."""
    return _ask("open", envelope, password)


def grab(envelope: Named) -> Call[Result]:
    """Ask whether an open would win now; nothing is written or promised."""
    return _ask("grab", envelope, None)


def detail(envelope: Named, *, cursor: str | None = None, limit: int | None = None, version: str = "") -> Call[Detail]:
    """Show an envelope with a page of its claims; with the `version` of an earlier answer, Unchanged while it holds."""
    query = _query(cursor=cursor, limit=limit)
    headers = {"If-None-Match": version} if version else {}
    return Call("GET", f"/v1/envelopes/{_quoted(envelope)}{query}", _detail, headers=headers)


def cancel(envelope: Named) -> Call[Detail]:
    """Close the sender's own envelope now; what is left goes back."""
    return Call("POST", f"/v1/envelopes/{_quoted(envelope)}/cancel", _detail)


def wallet() -> Call[Wallet]:
    """Return the user's balance."""
    return Call("GET", "/v1/me/wallet", _wallet)


def entries(*, cursor: str | None = None, limit: int | None = None) -> Call[EntryPage]:
    """Return a page of the user's statement."""
    return Call("GET", f"/v1/me/wallet/entries{_query(cursor=cursor, limit=limit)}", _entries)


def envelopes(role: str, *, cursor: str | None = None, limit: int | None = None) -> Call[MinePage]:
    """Return a page of what the user has `sent`, has `received`, or what names them and is `waiting`."""
    return Call("GET", f"/v1/me/envelopes{_query(role=role, cursor=cursor, limit=limit)}", _mine)


def totals(year: int) -> Call[Totals]:
    """Return the sums of a year."""
    return Call("GET", f"/v1/me/totals?year={year}", _totals)


def live_path(envelopes_: tuple[Named, ...]) -> str:
    """Return the path of the stream that tells of these envelopes."""
    return f"/v1/live?envelopes={','.join(map(_quoted, envelopes_))}"


def play_users() -> Call[PlayUsers]:
    """Return who may sign in without a password."""
    return Call("GET", "/v1/play", _play_users)


def play_token(user: str) -> Call[PlayToken]:
    """Return a token for one of them."""
    return Call("POST", "/v1/play/token", _play_token, _encode({"user": user}), _JSON)


def _ask(verb: str, envelope: Named, password: str | None) -> Call[Result]:
    path = f"/v1/envelopes/{_quoted(envelope)}/{verb}"
    if password is None:
        return Call("POST", path, _result)
    return Call("POST", path, _result, _encode({"password": password}), _JSON)


def _quoted(envelope: Named) -> str:
    name = name_of(envelope)
    if not name.strip("."):
        raise ValueError(f"{name!r} names no envelope")
    # An ID or share ID has nothing to quote; what has is text of somebody's, and must not become another path.
    return name if name.isalnum() else quote(name, safe="")


def _query(**parameters: str | int | None) -> str:
    given = {name: value for name, value in parameters.items() if value is not None}
    return f"?{urlencode(given)}" if given else ""


def _reader(kind: type[T]) -> Callable[[bytes, Mapping[str, str]], T]:
    decode = msgspec.json.Decoder(kind).decode
    return lambda body, _: decode(body)


def _detail(body: bytes, headers: Mapping[str, str]) -> Detail:
    return msgspec.structs.replace(_decode_detail(body), version=headers.get("ETag", ""))


_JSON: Final = {"Content-Type": "application/json"}
_decode_detail: Final = msgspec.json.Decoder(Detail).decode
_envelope: Final = _reader(Envelope)
_result: Final = _reader(Result)
_wallet: Final = _reader(Wallet)
_entries: Final = _reader(EntryPage)
_mine: Final = _reader(MinePage)
_totals: Final = _reader(Totals)
_play_users: Final = _reader(PlayUsers)
_play_token: Final = _reader(PlayToken)
