"""A create as it comes off the link, checked and turned into values that can be written."""

from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated, Any

import msgspec

from envelope.limits import LIMITS
from envelope.money import MAX_TOTAL_FEN
from envelope.split import Split, check_bounds
from envelope.terms import Kind
from envelope.texts import is_one_line
from errors import InvariantBroken, Refused
from setnode.limits import MAX_INSTANT_MS
from sharding.ids import day_of, slot_of, yymmdd_of

User = Annotated[str, msgspec.Meta(min_length=1, max_length=LIMITS.user_id_chars)]
EnvelopeId = Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]
Instant = Annotated[int, msgspec.Meta(ge=0, le=MAX_INSTANT_MS - LIMITS.max_expires_in_s * 1000)]
Fen = Annotated[int, msgspec.Meta(ge=1, le=MAX_TOTAL_FEN)]


class RequestedTerms(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The terms as the gateway has checked them; what money or rules depend on is checked here once more.

    `to` None invites everybody who holds the share token; `opens_at_ms` None opens at once.
    """

    kind: Kind
    split: Split
    total_fen: Annotated[int, msgspec.Meta(ge=1, le=MAX_TOTAL_FEN)]
    count: Annotated[int, msgspec.Meta(ge=1, le=LIMITS.max_count)]
    expires_in_s: Annotated[int, msgspec.Meta(ge=1, le=LIMITS.max_expires_in_s)]
    greeting: Annotated[str, msgspec.Meta(max_length=LIMITS.greeting_chars)] = ""
    to: Annotated[frozenset[User], msgspec.Meta(max_length=LIMITS.invited_users)] | None = None
    password: Annotated[str, msgspec.Meta(max_length=LIMITS.password_chars)] | None = None
    opens_at_ms: Instant | None = None
    min_fen: Fen | None = None
    max_fen: Fen | None = None

    def __repr__(self) -> str:
        """Leave out what only the invited may know."""
        return f"RequestedTerms({self.kind.value})"


class Create(msgspec.Struct, frozen=True, array_like=True):
    """A create as `wire.messages.Op.CREATE` has it.

    `create_key` stands for (sender, Idempotency-Key); `fingerprint`, a hash of the terms, tells a repeat from another
    create under the same key. `envelope_ids` are candidates of one slot and day, tried in order.
    """

    sender: User
    create_key: str
    fingerprint: str
    envelope_ids: Annotated[list[EnvelopeId], msgspec.Meta(min_length=1)]
    terms: RequestedTerms


def read_create(args: list[Any]) -> Create:
    """Return the arguments of CREATE; raises Refused `malformed_request`."""
    try:
        create = msgspec.convert(args, Create)
    except msgspec.ValidationError as error:
        raise Refused("malformed_request", f"the terms of this create cannot be read: {error}") from error
    day = _day_of_all(create.envelope_ids)
    terms = create.terms
    if terms.count > terms.total_fen:
        raise Refused("malformed_request", "there are more shares than fen")
    if terms.to is not None and terms.count > len(terms.to):
        raise Refused("malformed_request", "there are more shares than receivers")
    if (terms.kind is Kind.EQUAL) != (terms.split is Split.EQUAL):
        raise Refused("malformed_request", "the split does not fit the kind")
    _check_bounds(terms)
    if terms.opens_at_ms is not None and terms.opens_at_ms > _latest_start_ms(day, terms):
        raise Refused("malformed_request", "opens_at is further ahead than an envelope of this day may begin")
    _check_texts(create.sender, terms)
    return create


def _check_texts(sender: str, terms: RequestedTerms) -> None:
    """Others see names and greeting; and Postgres accepts no NUL in a text: one would fail the whole batch."""
    if not is_one_line("".join((sender, *(terms.to or ())))):
        raise Refused("malformed_request", "a user's name contains a control character")
    if not is_one_line(terms.greeting) or not is_one_line(terms.password or ""):
        raise Refused("control_character", "greeting and password must be one line without control characters")


def _check_bounds(terms: RequestedTerms) -> None:
    if terms.min_fen is None and terms.max_fen is None:
        return
    if terms.split is Split.EQUAL:
        raise Refused("bounds_not_for_kind", "only shares that are drawn have bounds")
    check_bounds(terms.total_fen, terms.count, terms.min_fen, terms.max_fen)


def _day_of_all(envelope_ids: list[int]) -> date:
    """Return the business day of all candidates; raises Refused unless they are of one day and one slot.

    Only the first is admitted by its slot, and one of no day could not be written, nor could those beside it.
    """
    first, *others = envelope_ids
    try:
        day = day_of(first)
    except (ValueError, InvariantBroken):
        raise Refused("malformed_request", "no envelope ID begins with these six digits: no day") from None
    place = yymmdd_of(first), slot_of(first)
    if any((yymmdd_of(one), slot_of(one)) != place for one in others):
        raise Refused("malformed_request", "the candidates for the ID are not of one day and slot")
    return day


def _latest_start_ms(day: date, terms: RequestedTerms) -> int:
    """Return the last instant at which such an envelope of this day may open, wherever its business day ends."""
    ends = datetime.combine(day, time.min, UTC) + timedelta(days=2)
    ahead_s = min(LIMITS.max_opens_in_s, LIMITS.max_lives_s - terms.expires_in_s)
    return int(ends.timestamp() * 1000) + ahead_s * 1000
