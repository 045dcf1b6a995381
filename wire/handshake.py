"""How two processes prove to each other that they have the same key, without sending it, and agree on a version.

Before a link, and before an HTTP request that is for our own processes:

1. caller → server: `Authorization: Hongbao 3 PATH NONCE_C 2-3`, its newest version and the versions that it speaks
2. server → caller: 401, `WWW-Authenticate: Hongbao 3 NONCE_S 2-3`, the highest version that both speak
3. caller → server: `Authorization: Hongbao 3 PATH NONCE_C 2-3 NONCE_S RELEASE WORDS PROOF_C`
4. server → caller: `PROOF_S RELEASE WORDS`, as the first message of a link, or as `Authentication-Info` of an answer.

A proof is HMAC-SHA-256, under the key of PATH, over the prover's side, the address asked, PATH, both nonces, the
versions that both ends have offered and the one they speak, and what the ends have told of themselves by then (release
and capabilities, `wire.versions`). The caller sends nothing else before it has checked PROOF_S. So whoever takes a
server's port learns a path, a release and a proof that is good for nobody: NONCE_S must be one that the server gave out
itself, and it is used up by the first answer. PATH ends with the server's name: a proof that is passed on to another
server is refused there.

The release before knows version 2 alone. It answers anything else with `Hongbao 2`; the caller then begins anew in
version 2: `Hongbao 2 PATH NONCE_C`, `Hongbao 2 NONCE_S`, `Hongbao 2 PATH NONCE_C NONCE_S PROOF_C`, `PROOF_S`, proofs
over side, address, PATH and nonces. Nobody in between can bring that about where both ends speak version 3: a server
that does marks each nonce that it gives out in version 2, the proofs cover nonces, and a caller that speaks version 3
refuses a marked one (TLS 1.3 does the same, RFC 8446, 4.1.3).

Not here: secrecy and integrity of what follows. Whoever can change packets between two machines is kept out by the
network, or by TLS (`runtime.tls`, docs/security.md).
"""

import asyncio
import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable
from http import HTTPStatus
from typing import Final

from errors import HongbaoError
from runtime import logs
from wire.keys import PATH, Accepted, LinkKey
from wire.limits import CHALLENGE_S, MAX_CHALLENGES, STRANGERS_PER_S
from wire.versions import ABOUT, ABOUT_SINCE, SPOKEN, Peer, Range, about, agreed, mismatch, peer_of

PROOF_HEADER: Final = "Authentication-Info"

_NONCE = "[0-9a-f]{32}"
_PROOF = "[0-9a-f]{64}"
_NUMBER = "[0-9]{1,4}"
_RANGE = f"({_NUMBER})-({_NUMBER})"
_hello = re.compile(rf"Hongbao ({_NUMBER}) ({PATH.pattern}) ({_NONCE})(?: {_RANGE})?", re.ASCII)
_answer = re.compile(rf"{_hello.pattern} ({_NONCE}) (?:({ABOUT}) )?({_PROOF})", re.ASCII)
_challenge = re.compile(rf"Hongbao ({_NUMBER}) ({_NONCE})(?: {_RANGE})?", re.ASCII)
_refusal = re.compile(rf"Hongbao ({_NUMBER})(?: {_RANGE})?(?: .*)?", re.ASCII)

_MARK: Final = hashlib.sha256(b"hongbao link: this server speaks more than version 2").hexdigest()[:16]
"""Ends each nonce that a server gives out in version 2 if it speaks a later one; 64 bits of such a nonce are random,
enough for one that is used once and within seconds."""

_log = logs.get("wire")
_strangers = logs.Budget(STRANGERS_PER_S)


class LinkRefused(HongbaoError):
    """The two ends do not have the same key, or no version in common. An operator must mend it."""

    def __init__(self, detail: str) -> None:
        super().__init__("link_refused", detail)


class Prover:
    """The calling end of one handshake, with the server `name`, for the address `target`.

    `spoken` are its versions, `capabilities` what it tells of itself (`wire.versions`).
    """

    def __init__(
        self, key: LinkKey, name: str, target: str, *, spoken: Range = SPOKEN, capabilities: Iterable[str] = ()
    ) -> None:
        self._key = key.below(name)
        self._name = name
        self._target = target
        self._spoken = spoken
        self._about = about(capabilities)
        self._nonce = secrets.token_hex(16)
        self._version = spoken.high
        """That of the next greeting; from the challenge on the one that both ends speak."""
        self._server_nonce = ""
        self._server_range = ""

    @property
    def hello(self) -> str:
        """The first `Authorization`; another one once `answer` has returned None."""
        return _greeting(self._version, self._key.path, self._nonce, self._spoken)

    def answer(self, status: int, challenge: str) -> str | None:
        """Return the second `Authorization` from the first answer's status and `WWW-Authenticate`.

        None: the server knows version 2 alone; ask again with `hello`, which is of that version now. Raises LinkRefused
        if the two have no version in common or somebody in between has changed the greeting, ConnectionError if the
        other end is something else altogether.
        """
        if status != HTTPStatus.UNAUTHORIZED:
            raise ConnectionError(f"what listens as {self._name} answers {status} and no challenge")
        found = _challenge.fullmatch(challenge)
        if found is None or (int(found[1]) < ABOUT_SINCE) != (self._version < ABOUT_SINCE):
            self._begin_lower(challenge)
            return None
        version, self._server_nonce, low, high = found.groups()
        if self._version < ABOUT_SINCE:
            if self._spoken.high >= ABOUT_SINCE and self._server_nonce.endswith(_MARK):
                raise self._meddled()
            return f"{self.hello} {self._server_nonce} {self._proof('caller')}"
        theirs = Range(int(low or version), int(high or version))
        if (both := agreed(self._spoken, theirs)) is None:
            raise LinkRefused(mismatch(self._spoken, theirs, self._name))
        if int(version) != both:
            raise self._meddled()
        self._version, self._server_range = both, theirs.text
        return f"{self.hello} {self._server_nonce} {self._about} {self._proof('caller')}"

    def check(self, told: str) -> Peer:
        """Return what the server tells of itself; raises LinkRefused unless it has the key."""
        proof, _, said = told.partition(" ")
        if not hmac.compare_digest(proof.encode(errors="replace"), self._proof("server", said).encode()):
            raise LinkRefused(f"what listens as {self._name} does not have the key of {self._key.path}")
        peer = Peer() if self._version < ABOUT_SINCE else peer_of(self._version, said)
        if peer is None:
            raise LinkRefused(f"{self._name} tells its release in a way that this process cannot read")
        return peer

    def refused(self) -> LinkRefused:
        """Return the error for a server that did not accept our proof."""
        return LinkRefused(
            f"{self._name} does not accept our key of {self._key.path}; give both processes keys of the same root",
        )

    def wrong_certificate(self) -> LinkRefused:
        """Return the error for a server that accepts our proof, and not our certificate beside it."""
        return LinkRefused(
            f"{self._name} accepts our key of {self._key.path}, and our certificate is of another role; give this "
            "process its own: ./run installation certificates",
        )

    def _begin_lower(self, challenge: str) -> None:
        """Go on with version 2 if that is all the server knows; else raise LinkRefused."""
        found = _refusal.fullmatch(challenge)
        if found is None:
            raise LinkRefused(f"{self._name} speaks version unknown of links; is it a part of this system?")
        version, low, high = found.groups()
        theirs = Range(int(low or version), int(high or version))
        if theirs.high < ABOUT_SINCE <= self._version and agreed(self._spoken, theirs) is not None:
            self._version = theirs.high
            return
        if agreed(self._spoken, theirs) is None:
            raise LinkRefused(mismatch(self._spoken, theirs, self._name))
        raise LinkRefused(f"{self._name} did not understand our greeting; run the same release at both ends")

    def _meddled(self) -> LinkRefused:
        return LinkRefused(
            f"{self._name} and this process both speak a higher version than the one that was asked for: something "
            "between them changes what they send; find it, or put the link into TLS"
        )

    def _proof(self, side: str, server_about: str = "") -> str:
        nonces = (self._nonce, self._server_nonce)
        ranges = (self._spoken.text, self._server_range)
        return _prove(self._key, self._version, side, self._target, nonces, ranges, (self._about, server_about))


class Admitted:
    """A caller who has proven its key: its path, what it is, and what the server owes it: a proof, and its own word."""

    def __init__(self, key: LinkKey, peer: Peer, proof: str) -> None:
        self.path = key.path
        self.role = key.role
        self.peer = peer
        self.proof = proof


class Doorkeeper:
    """The answering end: gives out challenges and checks the answers. One for all addresses of a server.

    `capabilities` is what it tells of itself; parts add their words before the first caller comes.
    """

    def __init__(self, accepted: Accepted, *, spoken: Range = SPOKEN) -> None:
        self._accepted = accepted
        self._spoken = spoken
        self.capabilities: set[str] = set()
        self._open: dict[str, float] = {}
        """Nonces given out and not used yet, the oldest first, and until when each is good."""

    def challenge(self, authorization: str) -> str:
        """Return the `WWW-Authenticate` of a 401: a fresh nonce for a hello, else only our versions."""
        found = _hello.fullmatch(authorization)
        if found is None:
            return f"Hongbao {self._spoken.high} {self._spoken.text}"
        theirs = _offered(found)
        version = agreed(self._spoken, theirs)
        if version is None:
            if (left_out := _strangers.spend()) is not None:
                error = mismatch(self._spoken, theirs, "a caller")
                _log.warning("a caller is refused", path=found[2], error=error, left_out=left_out)
            return f"Hongbao {self._spoken.high} {self._spoken.text}"
        if len(self._open) >= MAX_CHALLENGES:
            del self._open[next(iter(self._open))]
        marked = version < ABOUT_SINCE <= self._spoken.high
        nonce = secrets.token_hex(8) + _MARK if marked else secrets.token_hex(16)
        self._open[nonce] = asyncio.get_running_loop().time() + CHALLENGE_S
        return f"Hongbao {version} {nonce}" + ("" if version < ABOUT_SINCE else f" {self._spoken.text}")

    def admit(self, authorization: str, target: str) -> Admitted | None:
        """Return who asks for `target`; None unless `authorization` answers a challenge of ours for the first time."""
        found = _answer.fullmatch(authorization)
        if found is None:
            return None
        version, path, theirs, ours, told, proof = (
            int(found[1]),
            found[2],
            found[3],
            found[6],
            found[7] or "",
            found[10],
        )
        good_until = self._open.pop(ours, None)
        key = self._accepted.key_of(path)
        if key is None or good_until is None or good_until < asyncio.get_running_loop().time():
            return None
        peer = Peer() if version < ABOUT_SINCE else peer_of(version, told)
        if peer is None or version != agreed(self._spoken, _offered(found)):
            return None
        nonces, ranges = (theirs, ours), (_offered(found).text, self._spoken.text)
        if not hmac.compare_digest(proof, _prove(key, version, "caller", target, nonces, ranges, (told, ""))):
            return None
        said = about(self.capabilities) if version >= ABOUT_SINCE else ""
        owed = _prove(key, version, "server", target, nonces, ranges, (told, said))
        return Admitted(key, peer, f"{owed} {said}".rstrip())


def _offered(found: re.Match[str]) -> Range:
    """Return the versions that a caller's greeting offers; before version 3 it names the only one."""
    version, low, high = found[1], found[4], found[5]
    return Range(int(low or version), int(high or version))


def _greeting(version: int, path: str, nonce: str, spoken: Range) -> str:
    return f"Hongbao {version} {path} {nonce}" + ("" if version < ABOUT_SINCE else f" {spoken.text}")


def _prove(
    key: LinkKey,
    version: int,
    side: str,
    target: str,
    nonces: tuple[str, str],
    ranges: tuple[str, str],
    told: tuple[str, str],
) -> str:
    """Return the proof of a side; pairs are the caller's and the server's. Version 2 knows no ranges, and nothing told.

    The caller proves before the server has told anything: its own proof has "" there.
    """
    words = ["hongbao link", str(version), side, target, key.path, *nonces]
    if version >= ABOUT_SINCE:
        words += [*ranges, *told]
    return hmac.digest(key.secret, "\0".join(words).encode(), "sha256").hex()
