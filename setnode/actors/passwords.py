"""Passwords (口令) are kept and compared as keyed hashes, bound to their envelope.

They are short phrases that a whole group knows; what protects them is the five tries per user, not a slow hash.
"""

import hashlib
import hmac


def mac(key: bytes, envelope_id: int, password: str) -> str:
    """Return the hex HMAC-SHA-256 of the password for this envelope."""
    return hmac.new(key, f"{envelope_id}:{password}".encode(), hashlib.sha256).hexdigest()
