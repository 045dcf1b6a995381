"""What a sender asks for: the body of a create, checked field by field, and its fingerprint."""

import hashlib
import hmac
from typing import Any, Final

import msgspec

from envelope.errors import Refused
from envelope.limits import LIMITS
from envelope.money import brief, check_fen
from envelope.split import Split
from envelope.terms import Kind
from gateway.http.body import decode
from gateway.identity.users import is_user
from gateway.limits import PAST_OPENS_S
from gateway.reading.instants import read_instant
from gateway.reading.texts import check_text

SPLITS: Final[dict[Kind, tuple[Split, ...]]] = {
    Kind.LUCKY: (Split.DOUBLE_MEAN, Split.DOUBLE_MEAN_NARROW, Split.LINE_SEGMENTS, Split.BELL),
    Kind.EQUAL: (Split.EQUAL,),
}
"""The ways to split of each kind; the first is taken where none is named."""


class CreateBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The JSON as it comes. null is the same as not there."""

    kind: str
    total_fen: int
    count: int
    greeting: str | None = None
    to: list[str] | None = None
    password: str | None = None
    opens_at: str | None = None
    expires_in_s: int | None = None
    split: str | None = None


_decoder = msgspec.json.Decoder(CreateBody)
_KINDS: Final = {kind.value: kind for kind in Kind}
_FIRST_SPLITS: Final = {kind: splits[0].value for kind, splits in SPLITS.items()}
_encode_sorted: Final = msgspec.json.Encoder(order="sorted").encode


def read_terms(body: bytes, now_ms: int) -> dict[str, Any]:
    """Return the terms as CREATE carries them (`wire.messages.Op`); raises Refused with the code of the field."""
    wish = decode(_decoder, body)
    kind = _kind(wish.kind)
    total_fen = check_fen(wish.total_fen, name="total_fen", at_most=LIMITS.max_total_fen)
    to = None if wish.to is None else _to(wish.to)
    password = wish.password
    if password is not None:
        check_text(password, name="password", least=1, most=LIMITS.password_chars, code="password_length")
    return {
        "kind": wish.kind,
        "split": _split(kind, wish.split),
        "total_fen": total_fen,
        "count": _count(wish.count, total_fen, to),
        "greeting": check_text(
            wish.greeting or "", name="greeting", most=LIMITS.greeting_chars, code="greeting_too_long"
        ),
        "to": to,
        "password": password,
        "opens_at_ms": None if wish.opens_at is None else _opens_at(wish.opens_at, now_ms),
        "expires_in_s": _expires_in(wish.expires_in_s),
    }


def fingerprint(terms: dict[str, Any], key: str) -> str:
    """Return the SHA-256 (hex) by which a repeated create is known to be the same: of the terms, not of their JSON.

    It is stored beside the money, so a password goes in under `key`: nobody can guess it back from there.
    """
    password = terms["password"]
    hashed = terms if password is None else {**terms, "password": _keyed_hash(key, password)}
    return hashlib.sha256(_encode_sorted(hashed)).hexdigest()


def _keyed_hash(key: str, password: str) -> str:
    return hmac.digest(key.encode(), b"fingerprint:" + password.encode(), "sha256").hex()


def _kind(text: str) -> Kind:
    kind = _KINDS.get(text)
    if kind is None:
        raise Refused("unknown_kind", f"kind must be one of {', '.join(Kind)}")
    return kind


def _split(kind: Kind, text: str | None) -> str:
    if text is None:
        return _FIRST_SPLITS[kind]
    if text not in tuple(Split):
        raise Refused("unknown_split", f"split must be one of {', '.join(Split)}")
    if text not in SPLITS[kind]:
        raise Refused("split_not_for_kind", f"kind {kind} can be split by {', '.join(SPLITS[kind])}")
    return text


def _count(count: int, total_fen: int, to: list[str] | None) -> int:
    if not 1 <= count <= LIMITS.max_count:
        raise Refused("count_out_of_range", f"count must be 1 to {LIMITS.max_count}, not {brief(count)}")
    if count > total_fen:
        raise Refused("count_exceeds_total", f"{total_fen} fen make at most {total_fen} shares, not {count}")
    if to is not None and count > len(to):
        raise Refused("count_exceeds_invited", f"{len(to)} receivers can open at most {len(to)} shares, not {count}")
    return count


def _to(users: list[str]) -> list[str]:
    """Return the receivers in one order: the order in which they are named means nothing."""
    if not users:
        raise Refused("too_few_users", "`to` must name somebody; leave it out for everybody with the share token")
    if len(users) > LIMITS.invited_users:
        raise Refused("too_many_users", f"`to` may name at most {LIMITS.invited_users} users, not {len(users)}")
    if not all(map(is_user, users)):
        raise Refused("malformed_user", "`to` has a name that is no user ID")
    if len(set(users)) < len(users):
        raise Refused("duplicate_user", "`to` names a user twice")
    return sorted(users)


def _opens_at(text: str, now_ms: int) -> int:
    opens_at_ms = read_instant(text, name="opens_at")
    ahead_ms = opens_at_ms - now_ms
    if not -PAST_OPENS_S * 1000 <= ahead_ms <= LIMITS.max_opens_in_s * 1000:
        raise Refused("opens_at_out_of_range", f"opens_at must be in the next {LIMITS.max_opens_in_s} seconds")
    return opens_at_ms


def _expires_in(seconds: int | None) -> int:
    if seconds is None:
        return LIMITS.default_expires_in_s
    least, most = LIMITS.min_expires_in_s, LIMITS.max_expires_in_s
    if not least <= seconds <= most:
        raise Refused("expires_in_out_of_range", f"expires_in_s must be {least} to {most}, not {brief(seconds)}")
    return seconds
