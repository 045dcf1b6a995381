"""Bearer tokens: JWT, HS256, `sub` the user and `exp` required. Only this module uses PyJWT.

A verified token is cached, so that its next request costs a look-up instead of an HMAC and two JSON documents. Only
verified tokens are cached: a client without the key cannot fill the cache.
"""

import re
from functools import lru_cache
from typing import Any, Final

import jwt

from errors import InvariantBroken, Refused
from gateway.identity.auth_failures import AuthFailureLimiter
from gateway.identity.users import check_user, is_user
from gateway.limits import TOKEN_CACHE, TOKEN_CHARS
from runtime.clock import Clock

KEY_BYTES: Final = 32
"""HS256 needs a key as long as its hash (RFC 7518, 3.2)."""
_ALGORITHM = "HS256"
_SCHEME: Final = "Bearer "
_is_jwt: Final = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+", re.ASCII).fullmatch
"""Three parts in base64url without padding (RFC 7515)."""
_LAST_S: Final = 253_402_300_799
"""The end of the year 9999. NaN is not below it, and no larger number is a time."""
# Times are checked by `Tokens`, against its own clock.
_OPTIONS: Final[Any] = {
    "require": ["sub", "exp"], "verify_exp": False, "verify_nbf": False, "verify_iat": False, "verify_aud": False,
}  # fmt: skip


def make_token(key: str, user: str, *, ttl_s: int, clock: Clock) -> str:
    """Return a token for `user` that expires after `ttl_s` seconds."""
    now = clock.now_ms() // 1000
    return sign(key, user, now, now + ttl_s)


def sign(key: str, user: str, issued_at: int, expires_at: int) -> str:
    """Return a token for `user` from one instant to another (Unix time); raises Refused `malformed_user`."""
    return jwt.encode({"sub": check_user(user), "iat": issued_at, "exp": expires_at}, key, algorithm=_ALGORITHM)


class Tokens:
    """Finds the user of an `Authorization` header. The `cache` verified tokens used last are kept in memory."""

    def __init__(
        self, key: str, clock: Clock, *, cache: int = TOKEN_CACHE, failures: AuthFailureLimiter | None = None
    ) -> None:
        if len(key.encode()) < KEY_BYTES:
            raise InvariantBroken("token_key", f"the token key must have at least {KEY_BYTES} bytes")
        self._key = key
        self._now_ms = clock.now_ms
        self._failures = failures or AuthFailureLimiter()
        self._verified = lru_cache(maxsize=cache)(self._verify)

    def user_of(self, authorization: str | None) -> str:
        """Return the user; raises Refused `token_missing`, `token_expired` or `token_invalid`.

        While too many tokens from the client's address are rejected, a token that is not cached raises Unavailable
        `too_many_rejected_tokens`. An expired or invalid token that is verified counts as a rejection.
        """
        if not authorization:
            raise _missing()
        if not authorization.startswith(_SCHEME):
            authorization = _usual(authorization)
        user, expires_at_ms = self._verified(authorization)
        if expires_at_ms <= self._now_ms():
            raise _expired()
        return user

    def left_s(self, authorization: str | None) -> float:
        """Return for how many seconds a token is still good that `user_of` has just accepted."""
        header = authorization or ""
        _, expires_at_ms = self._verified(header if header.startswith(_SCHEME) else _usual(header))
        return max(0.0, (expires_at_ms - self._now_ms()) / 1000)

    def _verify(self, authorization: str) -> tuple[str, int]:
        token = authorization[len(_SCHEME) :]
        if not token.strip():
            raise _missing()
        if len(token) > TOKEN_CHARS:
            raise _invalid()
        self._failures.check()
        try:
            return self._read(self._decode(token))
        except Refused:
            self._failures.count()
            raise

    def _decode(self, token: str) -> dict[str, Any]:
        # One spelling of a token: each other one would be remembered beside it.
        if not _is_jwt(token):
            raise _invalid()
        try:
            # The list of algorithms is ours, never the token's: "none" and all others are refused.
            claims: dict[str, Any] = jwt.decode(token, self._key, algorithms=[_ALGORITHM], options=_OPTIONS)
        # A text that the parser cannot read is a forged token, whatever error it leads to.
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
            raise _invalid() from None
        return claims

    def _read(self, claims: dict[str, Any]) -> tuple[str, int]:
        expires_at_ms, user = _ms(claims["exp"]), claims["sub"]
        if not is_user(user) or _ms(claims.get("nbf", 0)) > self._now_ms():
            raise _invalid()
        if expires_at_ms <= self._now_ms():
            raise _expired()
        return user, expires_at_ms


def _ms(seconds: object) -> int:
    """Return a JWT's NumericDate (seconds since the epoch, maybe a fraction) in milliseconds."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not -_LAST_S <= seconds <= _LAST_S:
        raise _invalid()
    return int(seconds * 1000)


def _usual(authorization: str) -> str:
    """Return a header whose scheme is written in other letters as everybody writes it; raises `token_missing`."""
    scheme, _, token = authorization.partition(" ")
    if scheme.lower() != "bearer":
        raise _missing()
    return f"{_SCHEME}{token}"


def _missing() -> Refused:
    return Refused("token_missing", "send the header Authorization: Bearer TOKEN")


def _expired() -> Refused:
    return Refused("token_expired", "the bearer token has expired; get a new one")


def _invalid() -> Refused:
    return Refused("token_invalid", "the bearer token is malformed, forged, or not for a user")
