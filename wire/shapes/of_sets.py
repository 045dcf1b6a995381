"""The messages between gateways and the servers of a SET."""

from typing import Any

import msgspec

from wire.shapes.fields import Fields


class OpenArgs(Fields, frozen=True):
    """OPEN."""

    envelope_id: int
    user: str
    token_ok: bool
    password: str | None


class GrabArgs(Fields, frozen=True):
    """GRAB, WATCH."""

    envelope_id: int
    user: str
    token_ok: bool


class OutcomeReply(Fields, frozen=True):
    """Of OPEN and GRAB. `outcome`: its index in `envelope.outcomes.Outcome`."""

    outcome: int
    amount_fen: int
    seq: int
    last: bool
    extra: dict[str, Any] | None


class CreateTerms(msgspec.Struct, frozen=True):
    """By name. A name that a reader does not know is refused: without it another envelope would be made."""

    kind: str
    split: str
    total_fen: int
    count: int
    expires_in_s: int
    greeting: str = ""
    to: list[str] | None = None
    password: str | None = None
    opens_at_ms: int | None = None
    min_fen: int | None = None
    max_fen: int | None = None


class CreateArgs(Fields, frozen=True):
    """CREATE."""

    sender: str
    create_key: str
    fingerprint: str
    envelope_ids: list[int]
    terms: CreateTerms


class CreateReply(Fields, frozen=True):
    """Of CREATE."""

    replayed: bool
    envelope_id: int
    view: bytes | None


class DetailArgs(Fields, frozen=True):
    """DETAIL. `first` and `limit` name a page: both or neither."""

    envelope_id: int
    user: str
    token_ok: bool
    first: int | None = None
    limit: int | None = None
    known: list[str] | None = None


class DetailReply(Fields, frozen=True):
    """Of DETAIL and CANCEL."""

    view: bytes | None
    own: bool
    version: str


class CancelArgs(Fields, frozen=True):
    """CANCEL."""

    envelope_id: int
    user: str


class WatchReply(Fields, frozen=True):
    """Of WATCH."""

    frame: bytes
    version: str
    claimed: int


class LiveNotice(Fields, frozen=True):
    """What a caller that watches is told; `word` is `messages.LIVE`."""

    word: str
    envelope_id: int
    frame: bytes
    version: str


class Epochs(Fields, frozen=True):
    """EPOCHS."""

    epochs: list[int]


class CardsArgs(Fields, frozen=True):
    """CARDS."""

    user: str
    envelope_ids: list[int]


class CardsReply(Fields, frozen=True):
    """Of CARDS."""

    cards: list[bytes | None]


class WaitingRow(Fields, frozen=True):
    """Of WAITING."""

    envelope_id: int
    created_at_ms: int
    card: bytes


class WaitingReply(Fields, frozen=True):
    """Of WAITING."""

    rows: list[WaitingRow]
    floor: int
    complete: bool
