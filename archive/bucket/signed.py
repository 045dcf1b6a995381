"""The manifest's object: the signed manifest as a folder has it, and the hashes of its files by blocks, signed too.

`{"manifest": {…}, "hmac_sha256": "…", "blocks": {…}, "blocks_hmac_sha256": "…"}`. The second HMAC is over the line
`hongbao archive blocks`, the manifest's digest and the bytes of `blocks`. `blocks.sha256` has, for each file, the
SHA-256 of each BLOCK_BYTES of it, one after the other in hex.
"""

import hashlib
import hmac
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import NamedTuple

import msgspec

from archive.limits import BLOCK_BYTES
from archive.manifest import Manifest, Unproven, checked, sign
from archive.tables import FILES
from errors import Refused

_HASH = hashlib.sha256().digest_size
_UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)


class Blocks(msgspec.Struct, frozen=True):
    """The size of a block, and of each file the hashes of all its blocks, in hex."""

    size: int
    sha256: dict[str, str]

    def of(self, file: str) -> bytes:
        """Return a file's hashes, one after the other."""
        return bytes.fromhex(self.sha256[file])


class Signed(NamedTuple):
    """A manifest whose signature was checked, and the blocks of its files."""

    manifest: Manifest
    blocks: Blocks


class _Object(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    manifest: msgspec.Raw
    hmac_sha256: str
    blocks: msgspec.Raw
    blocks_hmac_sha256: str


def blocks_of(files: Mapping[str, Path]) -> Blocks:
    """Read files and hash their blocks."""
    return Blocks(BLOCK_BYTES, {name: "".join(_hashes(path)) for name, path in files.items()})


def _hashes(path: Path) -> list[str]:
    with path.open("rb") as file:
        return [hashlib.sha256(block).hexdigest() for block in iter(lambda: file.read(BLOCK_BYTES), b"")]


def encode(manifest: Manifest, blocks: Blocks, key: bytes) -> bytes:
    """Return the object's content: the same for the same manifest, files and key."""
    inner = msgspec.json.encode(blocks, order="sorted")
    mac = _mac(manifest.digest, inner, key).hex().encode()
    head = sign(manifest, key).rstrip().removesuffix(b"}")
    return b'%b,\n"blocks": %b,\n"blocks_hmac_sha256": "%b"}\n' % (head, inner, mac)


def decode(content: bytes, where: str, key: bytes, *, xx: int, day: date) -> Signed:
    """Return what the object `where` holds, both signatures checked.

    Raises Refused `archive_corrupt`, or `archive_forged`: not signed by this key, or of another date or database.
    """
    try:
        found = msgspec.json.decode(content, type=_Object)
        blocks = msgspec.json.decode(found.blocks, type=Blocks)
        said = bytes.fromhex(found.blocks_hmac_sha256), bytes.fromhex(found.hmac_sha256)
        hashes = {name: blocks.of(name) for name in blocks.sha256}
    except _UNREADABLE as error:
        raise Refused("archive_corrupt", f"{where} is no manifest of an archive in an object store: {error}") from error
    manifest = checked(bytes(found.manifest), said[1], where, key, xx=xx, day=day)
    if not hmac.compare_digest(_mac(manifest.digest, bytes(found.blocks), key), said[0]):
        raise Refused("archive_forged", f"{where} was changed: the hashes of its blocks are not signed with this key")
    if set(manifest.files) != set(FILES.values()):
        raise Refused("archive_corrupt", f"{where} does not name the files of an archive")
    for name, file in manifest.files.items():
        if blocks.size < 1 or len(hashes.get(name, b"")) != -(-file.size // blocks.size) * _HASH:
            raise Refused("archive_corrupt", f"{where} has not the hashes of all blocks of {name}")
    return Signed(manifest, blocks)


def unproven(content: bytes) -> Unproven | None:
    """Return what a manifest's object says, unchecked; None if it is no such object."""
    try:
        found = msgspec.json.decode(content, type=_Object)
        return Unproven(bytes(found.manifest), bytes.fromhex(found.hmac_sha256), None)
    except _UNREADABLE:
        return None


def _mac(digest: str, blocks: bytes, key: bytes) -> bytes:
    return hmac.new(key, b"hongbao archive blocks\n" + digest.encode() + b"\n" + blocks, hashlib.sha256).digest()
