"""Share tokens: a user who has one may see its envelope, and open it unless its terms name the receivers (`to`).

A token is HMAC-SHA256 of the ID's 19 digits under the share key, cut to 16 bytes, in base64url: 22 characters that fit
a link in a chat. The gateway only says whether a token is right; the SET decides what a user without one may do.

A share ID is both in one text, for links: `A`, the version, and 32 characters of base64url, the 8 bytes of the ID and
the 16 of the token. The token is its check as well: a share ID that was cut, mistyped or forged is refused, whatever is
wrong with it. All 24 bytes are used, so that there is one spelling.
"""

import hmac
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from functools import lru_cache
from typing import Final

from errors import Refused
from gateway.limits import SHARE_CACHE

_ID_BYTES = 8
_MAC_BYTES = 16
SHARE_TOKEN_CHARS = 22
_VERSION: Final = "A"
SHARE_ID_CHARS: Final = 33
_is_whole: Final = re.compile(r"A[A-Za-z0-9_-]{32}", re.ASCII).fullmatch


class ShareTokens:
    """Makes and checks the share tokens of one installation. The SHARE_CACHE tokens used last are remembered."""

    def __init__(self, key: str) -> None:
        secret = key.encode()

        @lru_cache(maxsize=SHARE_CACHE)
        def token_of(envelope_id: int) -> str:
            mac = hmac.digest(secret, b"%019d" % envelope_id, "sha256")
            return urlsafe_b64encode(mac[:_MAC_BYTES])[:SHARE_TOKEN_CHARS].decode()

        self.token_of = token_of

    def is_valid(self, envelope_id: int, given: str | None) -> bool:
        """Say whether `given` is the envelope's token, in a time that does not depend on how much of it is right."""
        if not given or not given.isascii():
            return False
        return hmac.compare_digest(self.token_of(envelope_id), given)

    def share_id_of(self, envelope_id: int) -> str:
        """Return the envelope's share ID."""
        return _VERSION + urlsafe_b64encode(envelope_id.to_bytes(_ID_BYTES, "big") + self._mac(envelope_id)).decode()

    def read(self, share_id: str) -> int:
        """Return the ID of the envelope that a share ID names; raises Refused `share_id_invalid`."""
        if _is_whole(share_id):
            both = urlsafe_b64decode(share_id[len(_VERSION) :])
            envelope_id = int.from_bytes(both[:_ID_BYTES], "big")
            if hmac.compare_digest(self._mac(envelope_id), both[_ID_BYTES:]):
                return envelope_id
        raise Refused("share_id_invalid", "this share ID was cut, mistyped or made up; ask for the link again")

    def _mac(self, envelope_id: int) -> bytes:
        return urlsafe_b64decode(self.token_of(envelope_id) + "==")


def is_share_id(text: str) -> bool:
    """Say whether a text that stands for an envelope is to be read as a share ID: an ID begins with a digit."""
    return text.startswith(_VERSION)
