"""Passwords (口令) are stored and compared as keyed hashes that are bound to their envelope.

They are short phrases that a whole group knows. Five tries for each user protect them, not a slow hash.
"""

import hashlib
import hmac


def mac(key: bytes, envelope_id: int, password: str) -> str:
    """Return the hex HMAC-SHA-256 of the password for this envelope."""
    return hmac.new(key, f"{envelope_id}:{password}".encode(), hashlib.sha256).hexdigest()
