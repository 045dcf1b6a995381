"""What was proven before: the digests of days on which nothing is open or on its way any more.

They stand in a signed file of the installation, beside neither the SET's rows nor the wallet's: whoever edits rows in
a database cannot make the digest fit.
"""

import hashlib
import hmac
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from audit.report import Sums
from audit.snapshot import DayPart
from runtime import files, logs

RULES: Final = 3
"""Raise it with every check that is added or made stricter: what was proven by fewer is read again."""
_KEY: Final = b"hongbao audit proofs"

_log = logs.get("audit")


class PartProof(msgspec.Struct, frozen=True):
    """A part that was read whole and held: its digest then, and the money that it adds to the sums, in fen."""

    digest: str
    envelopes: int
    claims: int
    paid_in_fen: int
    claimed_fen: int
    refunded_fen: int
    credited_fen: int

    def add_to(self, sums: Sums) -> None:
        """Add the money of the part to the sums of an audit."""
        for name in self.__struct_fields__[1:]:
            setattr(sums, name, getattr(sums, name) + getattr(self, name))


class Proofs:
    """The proofs of an installation. Without a path nothing is known and nothing is kept."""

    def __init__(self, path: Path | None = None, key: bytes = b"", *, full: bool = False) -> None:
        """`full`: believe no proof, and make all of them anew."""
        self._path = path
        self._key = hmac.digest(key, _KEY, hashlib.sha256)
        self._told = False
        self._known: dict[str, PartProof] = {} if full else self._read()
        self._forgotten: set[str] = set()

    @property
    def kept(self) -> bool:
        """Whether proofs are kept at all: without a file digests need not be computed."""
        return self._path is not None

    def of(self, name: str) -> PartProof | None:
        """Return the proof of a part (`name_of`), or None."""
        return self._known.get(name)

    def put(self, name: str, proof: PartProof) -> None:
        """Note that a part was read whole and holds."""
        self._known[name] = proof
        self._forgotten.discard(name)

    def forget(self, name: str) -> None:
        """Forget a proof, also the file's: the part is read again, because it has changed or is not to be believed."""
        self._known.pop(name, None)
        self._forgotten.add(name)

    def save(self) -> None:
        """Write what is known, with what another audit has written meanwhile; 0600, durable when this returns.

        A file that cannot be written (a full disk, a folder of another user, two audits that write in the same
        instant) is logged and not an error: the report stands, and the next audit reads more.
        """
        if self._path is None:
            return
        before = self._read()
        proofs = {name: one for name, one in {**before, **self._known}.items() if name not in self._forgotten}
        if proofs == before:
            return
        body = {"rules": RULES, "proofs": {name: msgspec.to_builtins(one) for name, one in sorted(proofs.items())}}
        try:
            files.write_private(self._path, {**body, "mac": self._mac(body)})
        except OSError as error:
            reason = str(error)
            _log.warning("what this audit has proven could not be kept: the next one reads it again", reason=reason)

    def _read(self) -> dict[str, PartProof]:
        """Return the proofs of the file; none, and a warning the first time, if it cannot be read or believed."""
        if self._path is None:
            return {}
        try:
            content = json.loads(self._path.read_text(encoding="utf-8"))
            mac = content.pop("mac")
            if not hmac.compare_digest(mac, self._mac(content)):
                raise ValueError("it is not signed with this installation's key")
            if content["rules"] != RULES:
                return {}
            return msgspec.convert(content["proofs"], dict[str, PartProof])
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError, AttributeError, msgspec.ValidationError) as error:
            if not self._told:
                _log.warning("the proofs of earlier audits are not used: all days are read", reason=str(error))
            self._told = True
            return {}

    def _mac(self, body: Mapping[str, Any]) -> str:
        return hmac.digest(self._key, json.dumps(body, sort_keys=True).encode(), hashlib.sha256).hex()


def name_of(set_name: str, part: DayPart, *, provider: bool) -> str:
    """Name a part for the proofs: its SET, day and slots, whether its rows are in an archive, and by which rule.

    `provider`: claims may have been paid out by a payment provider; what holds so need not hold without one.
    """
    slots = hashlib.sha256(",".join(map(str, sorted(part.slots))).encode()).hexdigest()[:16]
    place = "tables" if part.xx is None else "archive"
    return f"{set_name} {part.day} {slots} {place}{' provider' if provider else ''}"
