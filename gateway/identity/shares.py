"""Share tokens: who holds one may see and open an envelope that does not name him.

HMAC-SHA256 of the ID under the share key, cut to 16 bytes, base64url: 22 characters that fit a link in a chat. The
gateway only says whether it is right; what a stranger may do is decided by the SET.
"""

import base64
import hmac
from functools import lru_cache

from gateway.limits import SHARE_CACHE

TOKEN_BYTES = 16
TOKEN_CHARS = 22


class Shares:
    """Makes and checks share tokens of one deployment."""

    def __init__(self, key: str) -> None:
        keyed = hmac.new(key.encode(), digestmod="sha256")

        @lru_cache(maxsize=SHARE_CACHE)
        def token_of(envelope_id: int) -> str:
            # A copy has the key in it already: a third less than hmac.digest, which prepares it every time.
            mac = keyed.copy()
            mac.update(b"%019d" % envelope_id)
            return base64.urlsafe_b64encode(mac.digest()[:TOKEN_BYTES]).rstrip(b"=").decode()

        self.token_of = token_of

    def holds(self, envelope_id: int, given: str | None) -> bool:
        """Say whether `given` is the envelope's token, in a time that tells nothing about how much of it is right."""
        if not given or not given.isascii():
            return False
        return hmac.compare_digest(self.token_of(envelope_id), given)
