"""The manifest: what an archive holds, signed. The register of days stores its digest.

`manifest.json` is `{"manifest": {…}, "hmac_sha256": "…"}`. The HMAC (under the archive key) and the digest are computed
over the bytes of the inner object exactly as they stand in the file. A manifest that was read keeps them: it may have
been written by another release, with fields that this one does not know, or in another order.
"""

import hashlib
import hmac
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from archive.limits import KEY_BYTES, MANIFEST_BYTES
from archive.tables import FORMAT, tables_of
from errors import Refused
from sharding.slots import database_name

NAME = "manifest.json"


class File(msgspec.Struct, frozen=True):
    """One table's file. `sha256` is of its bytes, `rows_sha256` of its canonical rows (`archive.tables`)."""

    rows: int
    size: int
    sha256: str
    rows_sha256: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """What one archive holds. `claims` are all rows of the claim log, the closing ones too; amounts are in fen.

    `first_id` and `last_id` are None if there is no envelope. `schema_version` names the newest migration. `proof` is
    the rotation's (None: exported without one). Fields that this release does not know are passed over.
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
        """Return the bytes that are signed: of a manifest that was read those that were, else our own."""
        inner: bytes | None = self.__dict__.get(_INNER)
        return msgspec.json.format(_encoder.encode(self), indent=1) if inner is None else inner

    @property
    def digest(self) -> str:
        """The hex SHA-256 of the signed bytes: what `day_register.manifest_sha256` holds."""
        return hashlib.sha256(self.encode()).hexdigest()


class _Head(msgspec.Struct, frozen=True):
    """What is read first: a format that we do not know is named as that, whatever else stands there."""

    format: int


class _Signed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    manifest: msgspec.Raw
    hmac_sha256: str


_UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)
"""Raised for bytes that are no JSON or no hex digits, and for excessive nesting."""
_INNER = "inner"
"""Where a manifest keeps the bytes that it was read from; one made of it by `replace` has none."""
_encoder = msgspec.json.Encoder(order="sorted")


def plain(proof: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return a proof as JSON decodes it, so that a manifest equals itself after a round trip."""
    return None if proof is None else msgspec.json.decode(msgspec.json.encode(dict(proof)), type=dict[str, Any])


def check_key(key: bytes) -> None:
    """Raise Refused `archive_key_weak` if the key is shorter than KEY_BYTES."""
    if len(key) < KEY_BYTES:
        raise Refused("archive_key_weak", f"HONGBAO_ARCHIVE_KEY must have at least {KEY_BYTES} characters")


def fingerprint(key: bytes) -> str:
    """Return 16 hex digits that identify a key without revealing it."""
    return hmac.new(key, b"hongbao archive key", hashlib.sha256).hexdigest()[:16]


def sign(manifest: Manifest, key: bytes) -> bytes:
    """Return the content of `manifest.json`."""
    inner = manifest.encode()
    return b'{"manifest": %b,\n"hmac_sha256": "%b"}\n' % (inner, _mac(inner, key).hex().encode())


class Unproven(NamedTuple):
    """What a manifest says of itself, whoever signed it. `content` is None if it cannot be read."""

    inner: bytes
    mac: bytes
    content: Manifest | None

    @property
    def digest(self) -> str:
        """The hex SHA-256 of the bytes that were signed."""
        return hashlib.sha256(self.inner).hexdigest()

    def is_signed(self, key: bytes) -> bool:
        """Say whether it is signed with this key."""
        return hmac.compare_digest(_mac(self.inner, key), self.mac)


def unproven(folder: Path) -> Unproven | None:
    """Return what the manifest in a folder says, unchecked: to find out whose it is. None if there is none to read."""
    try:
        with (folder / NAME).open("rb") as file:
            signed = msgspec.json.decode(file.read(MANIFEST_BYTES + 1), type=_Signed)
        inner, mac = bytes(signed.manifest), bytes.fromhex(signed.hmac_sha256)
    except (OSError, *_UNREADABLE):
        return None
    try:
        return Unproven(inner, mac, msgspec.json.decode(inner, type=Manifest))
    except _UNREADABLE:
        return Unproven(inner, mac, None)


def read(folder: Path, key: bytes, *, xx: int, day: date) -> Manifest:
    """Return the manifest in an archive's own folder, its signature checked.

    Raises Refused `archive_missing`, `archive_forged` (not signed by this key, or of another date or database) or
    `archive_corrupt` (cannot be read).
    """
    check_key(key)
    path = folder / NAME
    try:
        with path.open("rb") as file:
            content = file.read(MANIFEST_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        raise Refused("archive_missing", f"there is no archive of {database_name(xx)} and {day}: no {path}") from None
    except OSError as error:
        raise Refused("archive_corrupt", f"cannot read {path}: {error.strerror}") from error
    if len(content) > MANIFEST_BYTES:
        raise Refused("archive_corrupt", f"{path} has more than {MANIFEST_BYTES} bytes: it is no manifest")
    try:
        signed = msgspec.json.decode(content, type=_Signed)
        said = bytes.fromhex(signed.hmac_sha256)
    except _UNREADABLE as error:
        raise Refused("archive_corrupt", f"{path} is no manifest: {error}") from error
    return checked(bytes(signed.manifest), said, path, key, xx=xx, day=day)


def checked(inner: bytes, said: bytes, where: object, key: bytes, *, xx: int, day: date) -> Manifest:
    """Return the manifest whose bytes are `inner` if `said` is their HMAC and it is of this database and date.

    Raises Refused as `read`, and `archive_format_unknown`; `where` is for the sentence.
    """
    if not hmac.compare_digest(_mac(inner, key), said):
        raise Refused("archive_forged", f"{where} was changed, or signed with another HONGBAO_ARCHIVE_KEY")
    try:
        tables_of(msgspec.json.decode(inner, type=_Head).format)
        found = msgspec.json.decode(inner, type=Manifest)
    except _UNREADABLE as error:
        raise Refused("archive_corrupt", f"{where} lacks what a manifest says: {error}") from error
    if (found.xx, found.day) != (xx, day):
        raise Refused("archive_forged", f"{where} is the manifest of {database_name(found.xx)} and {found.day}")
    found.__dict__[_INNER] = inner
    return found


def _mac(inner: bytes, key: bytes) -> bytes:
    return hmac.new(key, b"hongbao archive\n" + inner, hashlib.sha256).digest()
