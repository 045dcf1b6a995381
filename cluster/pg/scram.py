"""What Postgres keeps of a password, computed here, so that the password itself is in no statement.

A statement is text for others: the server's log, pg_stat_activity and pg_stat_statements show it. A verifier proves a
password and does not give it away.
"""

import base64
import hashlib
import hmac
import os
import re

ITERATIONS = 4096
"""Postgres' own; ours are keys of 128 bits or more, which no dictionary holds."""
SALT_BYTES = 16
_VERIFIER = re.compile(r"^SCRAM-SHA-256\$(\d+):([A-Za-z0-9+/=]+)\$[A-Za-z0-9+/=]+:[A-Za-z0-9+/=]+$")


def verifier(password: str, salt: bytes | None = None, iterations: int = ITERATIONS) -> str:
    """Return the SCRAM-SHA-256 verifier of an ASCII password, as pg_authid.rolpassword holds it.

    RFC 5802, section 3, with the hash of RFC 7677: StoredKey = H(HMAC(SaltedPassword, "Client Key")), ServerKey =
    HMAC(SaltedPassword, "Server Key"); written as in Postgres' documentation of pg_authid. Of ASCII without control
    characters SASLprep changes nothing. Raises ValueError for others.
    """
    if not (password.isascii() and password.isprintable() and password):
        raise ValueError("a password of ours is printable ASCII")
    salt = os.urandom(SALT_BYTES) if salt is None else salt
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, iterations)
    stored = hashlib.sha256(_keyed(salted, b"Client Key")).digest()
    return f"SCRAM-SHA-256${iterations}:{_text(salt)}${_text(stored)}:{_text(_keyed(salted, b'Server Key'))}"


def proves(kept: str | None, password: str) -> bool:
    """Say whether `kept` is a verifier of this password."""
    found = _VERIFIER.match(kept or "")
    if found is None or kept is None:
        return False
    return hmac.compare_digest(kept, verifier(password, base64.b64decode(found[2]), int(found[1])))


def _keyed(key: bytes, what: bytes) -> bytes:
    return hmac.digest(key, what, "sha256")


def _text(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")
