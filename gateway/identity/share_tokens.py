"""Share tokens: a user who has one may see its envelope, and open it unless its terms name the receivers (`to`).

A token is HMAC-SHA256 of the ID's 19 digits under the share key, cut to 16 bytes, in base64url: 22 characters that fit
a link in a chat. The gateway only says whether a token is right; the SET decides what a user without one may do.
"""

import hmac
from base64 import urlsafe_b64encode
from functools import lru_cache

from gateway.limits import SHARE_CACHE

_MAC_BYTES = 16
SHARE_TOKEN_CHARS = 22


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
