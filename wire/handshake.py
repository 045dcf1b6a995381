"""How two processes prove to each other that they have the same key, without sending it.

Before a link, and before an HTTP request that is for our own processes:

1. caller → server: `Authorization: Hongbao 2 PATH NONCE_C`
2. server → caller: 401, `WWW-Authenticate: Hongbao 2 NONCE_S`
3. caller → server: `Authorization: Hongbao 2 PATH NONCE_C NONCE_S PROOF_C`
4. server → caller: PROOF_S, as the first message of a link, or as `Authentication-Info` of an HTTP answer.

A proof is HMAC-SHA-256, under the key of PATH, over the prover's side, the address asked, PATH and both nonces. The
caller sends nothing else before it has checked PROOF_S. So whoever takes a server's port learns a path and a proof that
is good for nobody: NONCE_S must be one that the server gave out itself, and it is used up by the first answer. PATH
ends with the server's name: a proof that is passed on to another server is refused there.

Not here: secrecy and integrity of what follows. Whoever can change packets between two machines needs to be kept out by
the network, or by TLS (docs/security.md).
"""

import asyncio
import hmac
import re
import secrets
from http import HTTPStatus
from typing import Final

from errors import HongbaoError
from wire.keys import PATH, Accepted, LinkKey
from wire.limits import CHALLENGE_S, MAX_CHALLENGES

VERSION: Final = 2
"""Of the handshake and the messages. Both ends must have the same one: all processes are upgraded together."""
PROOF_HEADER: Final = "Authentication-Info"

_NONCE = "[0-9a-f]{32}"
_PROOF = "[0-9a-f]{64}"
_hello = re.compile(rf"Hongbao ([0-9]{{1,4}}) ({PATH.pattern}) ({_NONCE})(?: ({_NONCE}) ({_PROOF}))?", re.ASCII)
_challenge = re.compile(rf"Hongbao ([0-9]{{1,4}}) ({_NONCE})", re.ASCII)


class LinkRefused(HongbaoError):
    """The two ends do not have the same key, or are of different versions. An operator must mend it."""

    def __init__(self, detail: str) -> None:
        super().__init__("link_refused", detail)


class Prover:
    """The calling end of one handshake, with the server `name`, for the address `target`."""

    def __init__(self, key: LinkKey, name: str, target: str) -> None:
        self._key = key.below(name)
        self._name = name
        self._target = target
        self._nonce = secrets.token_hex(16)
        self._theirs = ""

    @property
    def hello(self) -> str:
        """The first `Authorization`."""
        return f"Hongbao {VERSION} {self._key.path} {self._nonce}"

    def answer(self, status: int, challenge: str) -> str:
        """Return the second `Authorization` from the first answer's status and `WWW-Authenticate`.

        Raises LinkRefused if the other end is of another version, ConnectionError if it is something else altogether.
        """
        if status != HTTPStatus.UNAUTHORIZED:
            raise ConnectionError(f"what listens as {self._name} answers {status} and no challenge")
        found = _challenge.fullmatch(challenge)
        if found is None or int(found[1]) != VERSION:
            spoken = re.match(r"Hongbao ([0-9]{1,4})\b", challenge)
            raise LinkRefused(
                f"{self._name} speaks version {spoken[1] if spoken else 'unknown'} of links, this process {VERSION}; "
                "run the same release everywhere",
            )
        self._theirs = found[2]
        return f"{self.hello} {self._theirs} {self._proof('caller')}"

    def check(self, proof: str) -> None:
        """Raise LinkRefused unless the server has the key."""
        if not hmac.compare_digest(proof.encode(errors="replace"), self._proof("server").encode()):
            raise LinkRefused(f"what listens as {self._name} does not have the key of {self._key.path}")

    def refused(self) -> LinkRefused:
        """Return the error for a server that did not accept our proof."""
        return LinkRefused(
            f"{self._name} does not accept our key of {self._key.path}; give both processes keys of the same root",
        )

    def _proof(self, side: str) -> str:
        return _prove(self._key, side, self._target, self._nonce, self._theirs)


class Admitted:
    """A caller who has proven its key: its path, and the proof that the server owes it."""

    def __init__(self, key: LinkKey, proof: str) -> None:
        self.path = key.path
        self.role = key.role
        self.proof = proof


class Doorkeeper:
    """The answering end: gives out challenges and checks the answers. One for all addresses of a server."""

    def __init__(self, accepted: Accepted) -> None:
        self._accepted = accepted
        self._open: dict[str, float] = {}
        """Nonces given out and not used yet, the oldest first, and until when each is good."""

    def challenge(self, authorization: str) -> str:
        """Return the `WWW-Authenticate` of a 401: a fresh nonce for a hello, else only our version."""
        found = _hello.fullmatch(authorization)
        if found is None or int(found[1]) != VERSION or found[4] is not None:
            return f"Hongbao {VERSION}"
        if len(self._open) >= MAX_CHALLENGES:
            del self._open[next(iter(self._open))]
        nonce = secrets.token_hex(16)
        self._open[nonce] = asyncio.get_running_loop().time() + CHALLENGE_S
        return f"Hongbao {VERSION} {nonce}"

    def admit(self, authorization: str, target: str) -> Admitted | None:
        """Return who asks for `target`; None unless `authorization` answers a challenge of ours for the first time."""
        found = _hello.fullmatch(authorization)
        if found is None or int(found[1]) != VERSION or found[4] is None:
            return None
        _, path, theirs, ours, proof = found.groups()
        good_until = self._open.pop(ours, None)
        key = self._accepted.key_of(path)
        if key is None or good_until is None or good_until < asyncio.get_running_loop().time():
            return None
        if not hmac.compare_digest(proof, _prove(key, "caller", target, theirs, ours)):
            return None
        return Admitted(key, _prove(key, "server", target, theirs, ours))


def _prove(key: LinkKey, side: str, target: str, caller_nonce: str, server_nonce: str) -> str:
    words = ("hongbao link", str(VERSION), side, target, key.path, caller_nonce, server_nonce)
    return hmac.digest(key.secret, "\0".join(words).encode(), "sha256").hex()
