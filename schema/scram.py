"""What Postgres keeps of a password, computed here, so that the password itself is in no statement.

A statement is text for others: the server's log, pg_stat_activity and pg_stat_statements show it. A verifier matches a
password and does not give it away.
"""

import base64
import hashlib
import hmac
import os
import re

ITERATIONS = 4096
"""The default of Postgres; enough because our passwords are random, 192 bits each."""
SALT_BYTES = 16
_VERIFIER = re.compile(r"^SCRAM-SHA-256\$(\d+):([A-Za-z0-9+/=]+)\$[A-Za-z0-9+/=]+:[A-Za-z0-9+/=]+$")


def verifier(password: str, salt: bytes | None = None, iterations: int = ITERATIONS) -> str:
    """Return the SCRAM-SHA-256 verifier of an ASCII password, as pg_authid.rolpassword holds it.

    RFC 5802, section 3, with the hash of RFC 7677: StoredKey = H(HMAC(SaltedPassword, "Client Key")), ServerKey =
    HMAC(SaltedPassword, "Server Key"); written as in Postgres' documentation of pg_authid. SASLprep does not
    change printable ASCII. Raises ValueError for other passwords.
    """
    if not (password.isascii() and password.isprintable() and password):
        raise ValueError("a password must be printable ASCII")
    salt = os.urandom(SALT_BYTES) if salt is None else salt
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, iterations)
    stored = hashlib.sha256(_keyed(salted, b"Client Key")).digest()
    return f"SCRAM-SHA-256${iterations}:{_text(salt)}${_text(stored)}:{_text(_keyed(salted, b'Server Key'))}"


def matches(stored: str | None, password: str) -> bool:
    """Say whether `stored` (pg_authid.rolpassword, None without one) is a verifier of this password."""
    found = _VERIFIER.match(stored or "")
    if found is None or stored is None:
        return False
    return hmac.compare_digest(stored, verifier(password, base64.b64decode(found[2]), int(found[1])))


def _keyed(key: bytes, what: bytes) -> bytes:
    return hmac.digest(key, what, "sha256")


def _text(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")
