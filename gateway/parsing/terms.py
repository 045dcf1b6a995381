"""The terms of a new envelope: the body of a create, checked field by field, and its fingerprint."""

import hashlib
import hmac
from typing import Final

import msgspec

from envelope.limits import LIMITS
from envelope.money import brief, check_fen
from envelope.split import Split, check_bounds
from envelope.terms import Kind
from errors import Refused
from gateway.http.body import decode
from gateway.identity.users import check_user
from gateway.limits import PAST_OPENS_S
from gateway.parsing.instants import read_instant
from gateway.parsing.texts import check_text
from runtime.wording import counted, duration

SPLITS: Final[dict[Kind, tuple[Split, ...]]] = {
    Kind.LUCKY: (Split.DOUBLE_MEAN, Split.DOUBLE_MEAN_NARROW, Split.LINE_SEGMENTS, Split.BELL),
    Kind.EQUAL: (Split.EQUAL,),
}
"""The ways to split of each kind; the first is the default."""


class RawCreateTerms(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The body as it is sent, types checked and nothing else. null is the same as a field that is not there."""

    kind: str
    total_fen: int
    count: int
    greeting: str | None = None
    to: list[str] | None = None
    password: str | None = None
    opens_at: str | None = None
    expires_in_s: int | None = None
    split: str | None = None
    min_fen: int | None = None
    max_fen: int | None = None


class CreateTerms(msgspec.Struct, frozen=True, omit_defaults=True):
    """The checked terms, defaults filled in, as CREATE carries them (`wire.messages.Op`).

    `fingerprint` hashes them as JSON in this order, without the last ones where they are None: neither order nor fields
    may ever change, a new field comes last and has a default.
    """

    count: int
    expires_in_s: int
    greeting: str
    kind: str
    opens_at_ms: int | None
    password: str | None
    split: str
    to: list[str] | None
    total_fen: int
    min_fen: int | None = None
    max_fen: int | None = None

    def __repr__(self) -> str:
        """Leave out what only invited users may know: terms are logged."""
        return f"CreateTerms({self.kind})"


_decoder = msgspec.json.Decoder(RawCreateTerms)
_NEEDED: Final = sum(field.required for field in msgspec.structs.fields(RawCreateTerms))
"""How many fields every create must have."""
_canonical: Final = msgspec.json.Encoder().encode
"""An encoder of its own: an option set for answers must not change a fingerprint."""
_DEFAULT_SPLITS: Final = {kind.value: splits[0].value for kind, splits in SPLITS.items()}
_MOST_FEN: Final = LIMITS.max_total_fen


def read_terms(body: bytes, now_ms: int) -> CreateTerms:
    """Return the terms that the body asks for; raises Refused with the code of the field that is wrong."""
    raw = decode(_decoder, body, needed=_NEEDED)
    kind = raw.kind
    default_split = _DEFAULT_SPLITS.get(kind)
    if default_split is None:
        raise Refused("unknown_kind", f"kind must be one of {', '.join(Kind)}")
    total_fen, to, password, greeting = raw.total_fen, raw.to, raw.password, raw.greeting
    if not 1 <= total_fen <= _MOST_FEN:
        check_fen(total_fen, name="total_fen", at_most=_MOST_FEN)
    if to is not None:
        to = _to(to)
    if password is not None:
        check_text(password, name="password", least=1, most=LIMITS.password_chars, code="password_length")
    split = default_split if raw.split is None else _split(kind, raw.split)
    count = _count(raw.count, total_fen, to)
    min_fen, max_fen = raw.min_fen, raw.max_fen
    if min_fen is not None or max_fen is not None:
        if split == Split.EQUAL:
            raise Refused("bounds_not_for_kind", "min_fen and max_fen are for shares that are drawn: kind lucky")
        check_bounds(total_fen, count, min_fen, max_fen)
    if greeting:
        check_text(greeting, name="greeting", most=LIMITS.greeting_chars, code="greeting_too_long")
    seconds = LIMITS.default_expires_in_s if raw.expires_in_s is None else _expires_in(raw.expires_in_s)
    opens_at_ms = None if raw.opens_at is None else _opens_at(raw.opens_at, now_ms, seconds)
    return CreateTerms(
        count, seconds, greeting or "", kind, opens_at_ms, password, split, to, total_fen, min_fen, max_fen
    )


def fingerprint(terms: CreateTerms, key: str) -> str:
    """Return the SHA-256 (hex) of the terms: a repeated create has the same, however its JSON is written.

    It is stored beside the money, so a password goes in as an HMAC under `key`: a reader of the database who lacks the
    key cannot test guesses against it.
    """
    if terms.password is not None:
        terms = msgspec.structs.replace(terms, password=_keyed_hash(key, terms.password))
    return hashlib.sha256(_canonical(terms)).hexdigest()


def _keyed_hash(key: str, password: str) -> str:
    return hmac.digest(key.encode(), b"fingerprint:" + password.encode(), "sha256").hex()


def _split(kind: str, text: str) -> str:
    if text not in tuple(Split):
        raise Refused("unknown_split", f"split must be one of {', '.join(Split)}")
    if text not in SPLITS[Kind(kind)]:
        raise Refused("split_not_for_kind", f"kind {kind} can be split by {', '.join(SPLITS[Kind(kind)])}")
    return text


def _count(count: int, total_fen: int, to: list[str] | None) -> int:
    if not 1 <= count <= LIMITS.max_count:
        raise Refused("count_out_of_range", f"count must be 1 to {LIMITS.max_count}, not {brief(count)}")
    if count > total_fen:
        raise Refused("count_exceeds_total", f"{total_fen} fen make at most {counted(total_fen, 'share')}, not {count}")
    if to is not None and count > len(to):
        most = f"{counted(len(to), 'receiver')} can open at most {counted(len(to), 'share')}"
        raise Refused("count_exceeds_invited", f"{most}, not {count}")
    return count


def _to(users: list[str]) -> list[str]:
    """Return the receivers sorted: the order in which they are named has no meaning."""
    if not users:
        raise Refused("too_few_users", "`to` must name somebody; leave it out for everybody with the share token")
    if len(users) > LIMITS.invited_users:
        raise Refused("too_many_users", f"`to` may name at most {LIMITS.invited_users} users, not {len(users)}")
    for user in users:
        check_user(user)
    if len(set(users)) < len(users):
        raise Refused("duplicate_user", "`to` names a user twice")
    return sorted(users)


def _opens_at(text: str, now_ms: int, open_s: int) -> int:
    opens_at_ms = read_instant(text, name="opens_at")
    ahead_ms = opens_at_ms - now_ms
    if not -PAST_OPENS_S * 1000 <= ahead_ms <= LIMITS.max_opens_in_s * 1000:
        raise Refused("opens_at_out_of_range", f"opens_at must be in the next {duration(LIMITS.max_opens_in_s)}")
    if ahead_ms + open_s * 1000 > LIMITS.max_lives_s * 1000:
        latest = LIMITS.max_lives_s - open_s
        raise Refused(
            "opens_at_out_of_range",
            f"an envelope ends at most {duration(LIMITS.max_lives_s)} after it was made: with expires_in_s {open_s} "
            f"opens_at must be in the next {duration(latest)}",
        )
    return opens_at_ms


def _expires_in(seconds: int) -> int:
    least, most = LIMITS.min_expires_in_s, LIMITS.max_expires_in_s
    if not least <= seconds <= most:
        raise Refused("expires_in_out_of_range", f"expires_in_s must be {least} to {most}, not {brief(seconds)}")
    return seconds
