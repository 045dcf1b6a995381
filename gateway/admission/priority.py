"""Who goes first: classes of requests, and within a class places of users that change every hour.

The order is that of what is lost: a user who was told `openable` has been promised something; an open is what people
came for; a create can be sent again, nobody waits for it but its sender; a grab is followed by an open; a view can be
looked at later, and so can the page and its files: browsers and a CDN keep them, and a crowd that loads pages must not
take the place of one that opens. Cancels, health and metrics are never refused here: there are few, and operators need
them most now. Nor is the question of a browser (OPTIONS), which comes before what its page sends.
"""

import contextlib
from base64 import urlsafe_b64decode
from collections.abc import Callable
from enum import IntEnum
from functools import lru_cache, partial
from hashlib import blake2b
from secrets import token_bytes
from typing import Final

import msgspec

from envelope.limits import LIMITS
from gateway.limits import HOUR_S, PLACED_BYTES, PLACES, PROMISE_S, PROMISES, TOKEN_CACHE

_TOKEN_PARTS: Final = 3
_PREFIX: Final = "/v1/envelopes/"
_OPEN: Final = "/open"
_GRAB: Final = "/grab"
_VIEWS: Final = ("/v1/me/", "/v1/live", "/assets/", "/s/", "/docs/")


class Class(IntEnum):
    """Classes of requests, first come those that are refused last."""

    ALWAYS = 0
    PROMISED = 1
    """Opens of users who were told `openable` a moment ago."""
    OPEN = 2
    CREATE = 3
    GRAB = 4
    VIEW = 5


OPERATIONS: Final = {
    Class.ALWAYS: "other",
    Class.PROMISED: "openEnvelope",
    Class.OPEN: "openEnvelope",
    Class.CREATE: "createEnvelope",
    Class.GRAB: "grabEnvelope",
    Class.VIEW: "view",
}
"""The label of each class in metrics: the operation, where there is one."""


class Promises:
    """Remembers for PROMISE_S which users were told `openable`, and of which envelope; the PROMISES told last.

    A user is known by the `sub` of their token: an app may make a new token for each request.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._until: dict[tuple[bytes, str], float] = {}

    def note(self, user: str, id_text: str) -> None:
        """Remember that a user was told that an envelope is openable."""
        key = user.encode(), id_text
        # Told again it goes to the end: the dict stays in the order in which promises end.
        self._until.pop(key, None)
        self._until[key] = self._now() + PROMISE_S
        if len(self._until) > PROMISES:
            del self._until[next(iter(self._until))]

    def holds(self, asker: bytes, id_text: str) -> bool:
        """Say whether the user that a header `Authorization` names was told so less than PROMISE_S ago."""
        until = self._until.get((_user(asker), id_text))
        return until is not None and self._now() < until

    def class_of(self, method: str, path: str, asker: bytes) -> Class:
        """Return the class of a request by its method, path and user; what no route has is ALWAYS: it costs little."""
        if path.startswith(_PREFIX):
            if method != "POST":
                # OPTIONS: the browser asks before it sends a page's open.
                return Class.VIEW if method != "OPTIONS" else Class.ALWAYS
            if path.endswith(_OPEN):
                promised = self._until and self.holds(asker, path[len(_PREFIX) : -len(_OPEN)])
                return Class.PROMISED if promised else Class.OPEN
            return Class.GRAB if path.endswith(_GRAB) else Class.ALWAYS
        if path == "/v1/envelopes":
            return Class.CREATE if method != "OPTIONS" else Class.ALWAYS
        viewed = path.startswith(_VIEWS) or path == "/"
        return Class.VIEW if viewed and method != "OPTIONS" else Class.ALWAYS


class Places:
    """Gives each user, known by the `sub` of their token, one of PLACES places for an hour.

    Nobody gains by trying again, and nobody stays last: with the hour all places change. The key is this process's
    own, so that no user can choose a place.
    """

    def __init__(self) -> None:
        self._key = token_bytes(16)
        self._hour = -1
        self._place = self._of_hour(0)

    def of(self, asker: bytes, now: float) -> int:
        """Return the place, 0 to PLACES - 1, of the user at `now` (seconds of any clock that goes on)."""
        hour = int(now // HOUR_S)
        if hour != self._hour:
            self._hour, self._place = hour, self._of_hour(hour)
        return self._place(_user(asker))

    def _of_hour(self, hour: int) -> Callable[[bytes], int]:
        return lru_cache(maxsize=TOKEN_CACHE)(partial(_place, self._key, hour.to_bytes(8, "little")))


def _place(key: bytes, salt: bytes, user: bytes) -> int:
    digest = blake2b(user, digest_size=2, key=key, salt=salt)
    return int.from_bytes(digest.digest(), "little") % PLACES


class _Claims(msgspec.Struct):
    sub: str


_by_digest: dict[bytes, bytes] = {}
"""Whom long headers name, by their digests."""


def _user(asker: bytes) -> bytes:
    """Return the user that a token names, unverified: a forged one is refused later, whatever place it has.

    By the header a user would have as many places as tokens, or ways to write `Bearer`. What is no token stands for
    itself. A long header is remembered by its digest, for strangers send them, too.
    """
    if len(asker) <= PLACED_BYTES:
        return _remembered(asker)
    digest = blake2b(asker, digest_size=32).digest()
    user = _by_digest.get(digest)
    if user is None:
        if len(_by_digest) >= TOKEN_CACHE:
            _by_digest.clear()
        _by_digest[digest] = user = _named(digest, asker)
    return user


@lru_cache(maxsize=TOKEN_CACHE)
def _remembered(asker: bytes) -> bytes:
    return _named(asker, asker)


def _named(itself: bytes, asker: bytes) -> bytes:
    parts = asker.partition(b" ")[2].split(b".")
    if len(parts) == _TOKEN_PARTS:
        with contextlib.suppress(ValueError, RecursionError, msgspec.MsgspecError):
            claims = urlsafe_b64decode(parts[1] + b"=" * (-len(parts[1]) % 4))
            sub = msgspec.json.decode(claims, type=_Claims).sub
            if len(sub) <= LIMITS.user_id_chars:
                return sub.encode()
    return itself
