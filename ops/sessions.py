"""Who asks: a bearer key of a program, or a page's session, which is a cookie and a proof that only that page has.

A cookie alone would not do. Browsers send the cookies of 127.0.0.1 to every port of it, so a page or a program at
another port could see it, and they count ports of one host as one site, so `SameSite` does not keep such a page out.
The proof is kept by the page (local storage is one origin's, port included) and sent as a header, which no other
origin's page can send, and the cookie cannot be read by scripts: each is worth nothing without the other.

Sessions are signed with the key that opened them, so they outlive a restart, and end for good when the key is replaced.
"""

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

import msgspec

from errors import Refused
from ops.limits import NAME_CHARS, SESSION_S
from runtime.clock import Clock

PROOF_HEADER = "X-Ops-Proof"


class Role(StrEnum):
    """What a key opens: a viewer reads, an operator acts, too."""

    VIEWER = "viewer"
    OPERATOR = "operator"


class Who(msgspec.Struct, frozen=True):
    """Who asks. `name`: as they gave it at the login, for the journal; nothing hangs on it."""

    role: Role
    name: str
    until_ms: int = 0


class _Session(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    role: Role
    name: Annotated[str, msgspec.Meta(max_length=NAME_CHARS)]
    until_ms: int
    nonce: str


class Login(msgspec.Struct, frozen=True):
    """A new session: what goes into the cookie, and the proof for the page."""

    who: Who
    cookie: str
    proof: str


class Sessions:
    """Knows the keys by role."""

    def __init__(self, keys: Mapping[Role, str], clock: Clock) -> None:
        self._keys = keys
        self._clock = clock

    def log_in(self, key: str, name: str) -> Login:
        """Open a session; raises Refused `key_wrong`, `name_invalid`."""
        name = name.strip()
        if len(name) > NAME_CHARS or not (name.isprintable()):
            raise Refused("name_invalid", f"a name is at most {NAME_CHARS} characters on one line")
        role = self._role_of(key)
        session = _Session(role, name or role.value, self._clock.now_ms() + SESSION_S * 1000, secrets.token_hex(16))
        body = base64.urlsafe_b64encode(msgspec.json.encode(session)).decode().rstrip("=")
        who = Who(role, session.name, session.until_ms)
        return Login(who, f"{body}.{self._mac(role, 'cookie', body)}", self._mac(role, "proof", body))

    def who(self, authorization: str | None, cookie: str | None, proof: str | None) -> Who:
        """Return who asks; raises Refused `key_missing`, `key_wrong`, `session_ended`."""
        if authorization is not None:
            scheme, _, key = authorization.partition(" ")
            if scheme.lower() != "bearer":
                raise Refused("key_missing", "send Authorization: Bearer and a key: ./run keys ops prints them")
            role = self._role_of(key.strip())
            return Who(role, f"a program with the {role}'s key")
        if not cookie or not proof:
            raise Refused("key_missing", "this is for operators: log in with a key, which ./run keys ops prints")
        body, _, mac = cookie.partition(".")
        try:
            session = msgspec.json.decode(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)), type=_Session)
        except (msgspec.MsgspecError, binascii.Error, ValueError):
            raise _ended() from None
        genuine = _equal(mac, self._mac(session.role, "cookie", body))
        genuine &= _equal(proof, self._mac(session.role, "proof", body))
        if not genuine or session.until_ms <= self._clock.now_ms():
            raise _ended()
        return Who(session.role, session.name, session.until_ms)

    def _role_of(self, key: str) -> Role:
        for role, right in self._keys.items():
            if _equal(key, right):
                return role
        raise Refused("key_wrong", "this is neither the operator's key nor the viewer's: ./run keys ops prints them")

    def _mac(self, role: Role, what: str, body: str) -> str:
        return hmac.new(self._keys[role].encode(), f"hongbao ops {what} {body}".encode(), hashlib.sha256).hexdigest()


def _equal(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "surrogateescape"), other.encode())


def _ended() -> Refused:
    return Refused("session_ended", "the session has ended: log in again")
