"""Bearer tokens: JWT, signed with a key that we know, `sub` the user and `exp` required.

A verified token is cached, so that its next request costs a look-up instead of an HMAC and two JSON documents. Only
verified tokens are cached: a client without the key cannot fill the cache.
"""

import re
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import jwt

from errors import InvariantBroken, Refused
from gateway.identity.auth_failures import AuthFailureLimiter
from gateway.identity.token_faults import (
    MALFORMED,
    MILLISECONDS,
    NO_TIME,
    NO_USER,
    NOT_YET,
    TOO_LONG,
    fault_of,
    invalid,
)
from gateway.identity.token_keys import KEY_BYTES, SHARED_ALGORITHM, TokenKey, TokenKeys
from gateway.identity.users import check_user, is_user
from gateway.limits import JWKS_LOOK_S, TOKEN_CACHE, TOKEN_CHARS
from runtime import logs
from runtime.clock import Clock
from runtime.periodic import Periodic

_log = logs.get("gateway")
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
    return jwt.encode({"sub": check_user(user), "iat": issued_at, "exp": expires_at}, key, algorithm=SHARED_ALGORITHM)


class Tokens:
    """Finds the user of an `Authorization` header. The `cache` verified tokens used last are kept in memory."""

    def __init__(
        self,
        key: str,
        clock: Clock,
        *,
        cache: int = TOKEN_CACHE,
        failures: AuthFailureLimiter | None = None,
        keys: Path | None = None,
        audience: str = "",
        issuer: str = "",
    ) -> None:
        """`keys`: a JWKS file, whose tokens must be for `audience` and by `issuer`, where these are given.

        Raises Refused `settings_invalid` if the file cannot be used.
        """
        if len(key.encode()) < KEY_BYTES:
            raise InvariantBroken("token_key", f"the token key must have at least {KEY_BYTES} bytes")
        self._keys = TokenKeys(key, keys)
        self._audience, self._issuer = audience, issuer
        self._complaint = ""
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

    def service(self) -> Periodic:
        """Return what reads the JWKS file again when it has changed; tokens of a key that has gone end with it."""
        return Periodic("token_keys", self._look, interval_s=JWKS_LOOK_S, jitter=0.0)

    async def _look(self) -> None:
        try:
            if self._keys.look():
                self._verified.cache_clear()
                _log.warning("the keys of tokens were read anew")
            self._complaint = ""
        except Refused as refusal:
            if refusal.detail != self._complaint:
                self._complaint = refusal.detail
                _log.error("the keys of tokens cannot be read; those of before stay in force", error=refusal.detail)

    def _verify(self, authorization: str) -> tuple[str, int]:
        token = authorization[len(_SCHEME) :]
        if not token.strip():
            raise _missing()
        if len(token) > TOKEN_CHARS:
            raise invalid(TOO_LONG)
        self._failures.check()
        try:
            return self._read(self._decode(token))
        except Refused:
            self._failures.count()
            raise

    def _decode(self, token: str) -> dict[str, Any]:
        # One spelling of a token: each other one would be remembered beside it.
        if not _is_jwt(token):
            raise invalid(MALFORMED)
        try:
            key = self._keys.of(token)
            # The algorithm is that of our key, never the token's: "none" and all others are refused.
            claims: dict[str, Any] = jwt.decode(token, key.key, algorithms=[key.algorithm], **self._checks(key))
        # A text that the parser cannot read is a forged token, whatever error it leads to.
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as error:
            raise invalid(fault_of(error, token, self._keys.named, SHARED_ALGORITHM)) from None
        return claims

    def _checks(self, key: TokenKey) -> dict[str, Any]:
        """Return what PyJWT checks. Who signs with a key of the file may sign for others as well; TOKEN_KEY is ours."""
        if not key.from_file:
            return {"options": _OPTIONS}
        audience, issuer = self._audience or None, self._issuer or None
        options = {**_OPTIONS, "verify_aud": audience is not None, "verify_iss": issuer is not None}
        return {"options": options, "audience": audience, "issuer": issuer}

    def _read(self, claims: dict[str, Any]) -> tuple[str, int]:
        expires_at_ms, user = _ms(claims["exp"]), claims["sub"]
        if not is_user(user):
            raise invalid(NO_USER)
        if _ms(claims.get("nbf", 0)) > self._now_ms():
            raise invalid(NOT_YET)
        if expires_at_ms <= self._now_ms():
            raise _expired()
        return user, expires_at_ms


def _ms(seconds: object) -> int:
    """Return a JWT's NumericDate (seconds since the epoch, maybe a fraction) in milliseconds."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise invalid(NO_TIME)
    if not -_LAST_S <= seconds <= _LAST_S:
        raise invalid(MILLISECONDS if _LAST_S < seconds <= _LAST_S * 1000 else NO_TIME)
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
