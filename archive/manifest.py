"""The manifest: what an archive holds, signed. Its digest goes into the register and binds the two.

`manifest.json` is `{"manifest": {…}, "hmac_sha256": "…"}`; the HMAC under the archive key and the digest are those of
the bytes of the inner object exactly as they stand in the file, so that nothing about them is a matter of
interpretation.
"""

import hashlib
import hmac
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import msgspec

from envelope.errors import Refused

NAME = "manifest.json"
FORMAT = 1
KEY_BYTES = 16
"""Of a key at least: shorter ones can be guessed."""


class File(msgspec.Struct, frozen=True):
    """One table's file. `sha256` is of its bytes, `rows_sha256` of its canonical rows (`archive.tables`)."""

    rows: int
    size: int
    sha256: str
    rows_sha256: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one archive holds. `claims` are all rows of the claim log, the closing ones too; amounts are in fen.

    `first_id` and `last_id` are None where there is no envelope. `schema_version` names the newest migration. `proof`
    is what the rotation proved before (None: exported without a proof).
    """

    format: int = FORMAT
    day: date
    xx: int
    schema_version: str
    envelopes: int
    claims: int
    guests: int
    paid_in_fen: int
    claimed_fen: int
    refunded_fen: int
    first_id: int | None
    last_id: int | None
    files: dict[str, File]
    proof: dict[str, Any] | None = None

    def encode(self) -> bytes:
        """Return the bytes that are signed."""
        return msgspec.json.format(_encoder.encode(self), indent=1)

    @property
    def digest(self) -> str:
        """The hex SHA-256 of the signed bytes: what `day_register.manifest_sha256` holds."""
        return hashlib.sha256(self.encode()).hexdigest()


class _Signed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    manifest: msgspec.Raw
    hmac_sha256: str


_UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)
"""What JSON raises for bytes that are none, for digits that are none, and for a nesting that is an attack."""
_encoder = msgspec.json.Encoder(order="sorted")


def plain(proof: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return a proof as JSON will have it, so that a manifest is equal to itself read back."""
    return None if proof is None else msgspec.json.decode(msgspec.json.encode(dict(proof)), type=dict[str, Any])


def check_key(key: bytes) -> None:
    """Raise Refused `archive_key_weak` for a key that can be guessed."""
    if len(key) < KEY_BYTES:
        raise Refused("archive_key_weak", f"HONGBAO_ARCHIVE_KEY must have at least {KEY_BYTES} characters")


def fingerprint(key: bytes) -> str:
    """Return what tells two keys apart and neither of them: 16 hex digits."""
    return hmac.new(key, b"hongbao archive key", hashlib.sha256).hexdigest()[:16]


def sign(manifest: Manifest, key: bytes) -> bytes:
    """Return the content of `manifest.json`."""
    inner = manifest.encode()
    return b'{"manifest": %b,\n"hmac_sha256": "%b"}\n' % (inner, _mac(inner, key).hex().encode())


def read(folder: Path, key: bytes, *, xx: int, day: date) -> Manifest:
    """Return the manifest in an archive's own folder, its signature checked.

    Raises Refused `archive_missing`, `archive_forged` (not signed by this key, or of another date or database) or
    `archive_corrupt` (cannot be read).
    """
    check_key(key)
    path = folder / NAME
    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise Refused("archive_missing", f"there is no archive of db_{xx:02d} and {day}: no {path}") from None
    except OSError as error:
        raise Refused("archive_corrupt", f"cannot read {path}: {error.strerror}") from error
    try:
        signed = msgspec.json.decode(content, type=_Signed)
        said = bytes.fromhex(signed.hmac_sha256)
    except _UNREADABLE as error:
        raise Refused("archive_corrupt", f"{path} is no manifest: {error}") from error
    inner = bytes(signed.manifest)
    if not hmac.compare_digest(_mac(inner, key), said):
        raise Refused("archive_forged", f"{path} was changed, or signed with another HONGBAO_ARCHIVE_KEY")
    try:
        found = msgspec.json.decode(inner, type=Manifest)
    except _UNREADABLE as error:
        raise Refused("archive_corrupt", f"{path} is of a form not known here: {error}") from error
    if (found.xx, found.day) != (xx, day) or found.encode() != inner:
        raise Refused("archive_forged", f"{path} is the manifest of db_{found.xx:02d} and {found.day}")
    return found


def _mac(inner: bytes, key: bytes) -> bytes:
    return hmac.new(key, b"hongbao archive\n" + inner, hashlib.sha256).digest()
