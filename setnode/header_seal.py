"""The seal of a header: a MAC over its hash, under a key that only setnodes have, in the header's own row.

It lets a setnode see at load, without asking the wallet, that a header was edited in the database. The audit, which has
no key, compares the header's hash with the one that was stored with the money (`envelope.header_hash`).
"""

import hashlib
import hmac
import secrets
from struct import Struct
from typing import Final, NamedTuple

from envelope.header_hash import header_hashes
from envelope.split import SPLIT_VERSION
from envelope.terms import Terms
from errors import InvariantBroken

_SEAL_HEX: Final = 32
"""128 bits of the MAC: a guess can be tested only by writing a row and loading it."""
_DRAFT: Final = Struct(">QH16s")


class Draft(NamedTuple):
    """What a create chooses by itself: the instant it begins, the split's version, a nonce that gives the seed.

    The wallet keeps it with the money, so a repeat of a create whose header was not written makes the same header. The
    nonce alone does not give the seed: that takes the setnodes' key, too.
    """

    created_at_ms: int
    split_version: int
    nonce: bytes

    @classmethod
    def new(cls, now_ms: int) -> "Draft":
        """Return a draft that begins now, with a nonce of 16 random bytes."""
        return cls(now_ms, SPLIT_VERSION, secrets.token_bytes(16))

    @classmethod
    def read(cls, packed: bytes) -> "Draft | None":
        """Return the draft that the wallet kept; None if the fund is older than drafts."""
        return cls(*_DRAFT.unpack(packed)) if len(packed) == _DRAFT.size else None

    def pack(self) -> bytes:
        """Return the bytes that the wallet keeps."""
        return _DRAFT.pack(*self)


class HeaderSeal:
    """Seals headers and draws their seeds under one key, from which each use has a key of its own."""

    def __init__(self, key: bytes) -> None:
        self._seal_key = hmac.digest(key, b"hongbao header seal", "sha256")
        self._seed_key = hmac.digest(key, b"hongbao split seed", "sha256")

    def seed(self, envelope_id: int, nonce: bytes) -> bytes:
        """Return the 32 bytes from which the shares of an envelope are drawn."""
        return hmac.digest(self._seed_key, b"%d:%b" % (envelope_id, nonce), "sha256")

    def of(self, hashed: bytes) -> str:
        """Return the seal of a header with this hash: 32 hex digits."""
        return hmac.digest(self._seal_key, hashed, hashlib.sha256).hex()[:_SEAL_HEX]

    def check(self, terms: Terms) -> None:
        """Raise InvariantBroken(`header_is_sealed`) if the terms are not those that were sealed.

        A header without a seal passes: it is older than seals, or the sweeper wrote it to undo a create.
        """
        if terms.seal is None or any(hmac.compare_digest(terms.seal, self.of(one)) for one in header_hashes(terms)):
            return
        raise InvariantBroken("header_is_sealed", f"envelope {terms.envelope_id}: its header was changed by hand")
