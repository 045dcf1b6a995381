"""What the sender fixed at creation and nobody ever changes."""

from enum import StrEnum

import msgspec

from envelope.split import Split


class Kind(StrEnum):
    """How shares are cut: by luck or evenly."""

    LUCKY = "lucky"
    EQUAL = "equal"


class Terms(msgspec.Struct, frozen=True, gc=False):
    """The immutable header of an envelope. A struct, because a frozen dataclass of so many fields takes 3 µs to make.

    Instants are milliseconds since the epoch (UTC). `seed` has 32 bytes and stays secret until the envelope is
    closed. `invited` None means everybody who holds the share token. `password_mac` is the hex HMAC of the
    password, never the password.
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

    @property
    def slot(self) -> int:
        """The last three digits of the ID."""
        return self.envelope_id % 1000
