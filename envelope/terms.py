"""The terms of an envelope: what the sender fixes at creation; they never change afterwards."""

from enum import StrEnum

import msgspec

from envelope.split import Split


class Kind(StrEnum):
    """How shares are cut: by luck or evenly."""

    LUCKY = "lucky"
    EQUAL = "equal"


class Terms(msgspec.Struct, frozen=True, gc=False):
    """The immutable header of an envelope: a msgspec struct, which is cheaper to make than a frozen dataclass.

    Instants are milliseconds since the epoch (UTC). `seed` has 32 bytes and stays secret until the envelope is
    closed. `invited` None means everybody who holds the share token. `password_mac` is the hex HMAC of the
    password, never the password. `min_fen` and `max_fen` bound each share (None: as the split has it). `seal` is the
    setnode's MAC over all of this (None: older than seals).
    """

    envelope_id: int
    sender: str
    kind: Kind
    split: Split
    split_version: int
    total_fen: int
    count: int
    greeting: str
    created_at_ms: int
    opens_at_ms: int
    expires_at_ms: int
    seed: bytes
    create_key: str
    invited: frozenset[str] | None = None
    password_mac: str | None = None
    min_fen: int | None = None
    max_fen: int | None = None
    seal: str | None = None
