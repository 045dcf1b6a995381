"""The keys that bearer tokens may be signed with: the shared one, and those of a JWKS file (RFC 7517), by `kid`.

With a public key in the file an app's service signs with a private key that no process of ours has. Keys are rotated by
rewriting the file: the new key beside the old one, and the old one taken out once its last token has ended.
"""

from pathlib import Path
from typing import Any, Final, NamedTuple

import jwt
import msgspec

from errors import Refused
from gateway.limits import JWKS_BYTES, JWKS_KEYS, RSA_BITS
from runtime.unreadable import UNREADABLE

KEY_BYTES: Final = 32
"""HS256 needs a key as long as its hash (RFC 7518, 3.2)."""
SHARED_ALGORITHM: Final = "HS256"
_ALGORITHMS: Final = ("EdDSA", "ES256", "RS256", SHARED_ALGORITHM)
_CURVES: Final = {"EdDSA": "Ed25519", "ES256": "P-256"}
"""An algorithm is for one curve (RFC 7518, 3.4); PyJWT takes others as well."""
_SETTING: Final = "HONGBAO_TOKEN_KEYS: "
_PRIVATE: Final = ("d", "p", "q", "dp", "dq", "qi")


class TokenKey(NamedTuple):
    """A key, and the one algorithm that it is for: a token's own word on its algorithm counts for nothing."""

    key: Any
    algorithm: str
    from_file: bool


class TokenKeys:
    """Finds a key by a token's `kid`. `look` reads the file again if it has changed."""

    def __init__(self, shared: str, path: Path | None = None) -> None:
        """Raises Refused `settings_invalid` if the file cannot be used."""
        self._shared = TokenKey(shared, SHARED_ALGORITHM, from_file=False)
        self._path = path
        self._read: tuple[int, int, int] | None = None
        self.named: dict[str, TokenKey] = {}
        """Those of the file by `kid`; empty without a file."""
        self.look()

    def of(self, token: str) -> TokenKey:
        """Return the key that the token names, else the shared one; raises PyJWTError if the token cannot be read."""
        if not self.named:
            return self._shared
        # Apps that sign with the shared key may name it as they like.
        return self.named.get(jwt.get_unverified_header(token).get("kid", ""), self._shared)

    def look(self) -> bool:
        """Read the file if it has changed; return whether it had.

        Raises Refused `settings_invalid` if it cannot be used; the keys of before stay in force.
        """
        if self._path is None:
            return False
        try:
            found = self._path.stat()
            seen = found.st_ino, found.st_size, found.st_mtime_ns
            if seen == self._read:
                return False
            # Remembered also if it cannot be used: it is complained of once.
            self._read = seen
            with self._path.open("rb") as file:
                text = file.read(JWKS_BYTES + 1)
        except OSError as error:
            self._read = None
            why = "" if self._path.is_absolute() else f" in {Path.cwd()}; give an absolute path"
            raise _refused(f"{self._path} cannot be read: {error.strerror}{why}") from error
        if len(text) > JWKS_BYTES:
            raise _refused(f"{self._path} has more than {JWKS_BYTES:,} bytes")
        try:
            self.named = read_jwks(text)
        except Refused as refused:
            raise _refused(f"{self._path}: {refused.detail.removeprefix(_SETTING)}") from None
        return True


def read_jwks(text: bytes) -> dict[str, TokenKey]:
    """Return the keys of a JWKS by `kid`; raises Refused `settings_invalid` if one of them is weak or cannot be used.

    Each has a `kid` of its own and an `alg`: EdDSA (Ed25519), ES256, RS256 of RSA_BITS or more, HS256 of KEY_BYTES or
    more. A private key is refused: whoever reads this file could sign in as anybody.
    """
    try:
        document = msgspec.json.decode(text, type=dict[str, Any])
    except UNREADABLE as error:
        raise _refused(f"it is no JSON object: {error}") from None
    rows = document.get("keys")
    if not isinstance(rows, list) or not 1 <= len(rows) <= JWKS_KEYS:
        raise _refused(f"it has no list `keys` of 1 to {JWKS_KEYS} keys (RFC 7517)")
    found: dict[str, TokenKey] = {}
    for number, row in enumerate(rows, 1):
        kid = row.get("kid") if isinstance(row, dict) else None
        if not isinstance(kid, str) or not kid:
            raise _refused(f"key {number} has no `kid`, by which a token names it")
        if kid in found:
            raise _refused(f"the kid {kid!r} is there twice")
        found[kid] = _key(row, f"the key {kid!r}")
    return found


def _key(row: dict[str, Any], name: str) -> TokenKey:
    algorithm = row.get("alg")
    if algorithm not in _ALGORITHMS:
        raise _refused(f"{name} has the alg {algorithm!r}; it must say one of {', '.join(_ALGORITHMS)}")
    if row.get("use", "sig") != "sig":
        raise _refused(f"{name} is for encryption (use), not for signatures")
    if row.get("kty") != "oct" and any(part in row for part in _PRIVATE):
        raise _refused(f"{name} has its private half in it: give gateways the public half alone")
    if row.get("crv") != _CURVES.get(algorithm):
        raise _refused(f"{name} has the crv {row.get('crv')!r}; {algorithm} needs {_CURVES.get(algorithm, 'none')}")
    try:
        parsed = jwt.PyJWK.from_dict(row, algorithm)
    except (jwt.PyJWTError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise _refused(f"{name} cannot be read: {error or type(error).__name__}") from None
    if algorithm == SHARED_ALGORITHM and len(parsed.key) < KEY_BYTES:
        raise _refused(f"{name} has fewer than {KEY_BYTES} bytes")
    if algorithm == "RS256" and parsed.key.key_size < RSA_BITS:
        raise _refused(f"{name} has {parsed.key.key_size} bits; RSA needs at least {RSA_BITS}")
    return TokenKey(parsed.key, algorithm, from_file=True)


def _refused(detail: str) -> Refused:
    return Refused("settings_invalid", f"{_SETTING}{detail}")
