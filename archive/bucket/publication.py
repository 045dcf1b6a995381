"""Archives in an object store: found, published, checked whole, and discarded once another one counts."""

import hashlib
from datetime import date
from pathlib import Path

from archive.bucket import layout, signed
from archive.bucket.signed import Signed
from archive.known import Known
from archive.limits import MANIFEST_BYTES
from archive.manifest import Manifest, check_key
from archive.standing import of_another
from errors import Refused
from objectstore.bucket import Bucket
from sharding.slots import database_name


def generations(bucket: Bucket) -> list[layout.Generation]:
    """Return all archives that have a manifest, unverified, as the store lists them."""
    found = (layout.generation_of(one.name) for one in bucket.listed(layout.MANIFESTS))
    return sorted(one for one in found if one is not None)


def find(bucket: Bucket, key: bytes, *, xx: int, day: date, digest: str | None) -> Signed:
    """Return the manifest with this digest, its signature checked; without a digest, the one that was put last.

    With a digest no listing is asked for: what was just put is found however late the store lists it. Raises Refused
    `archive_missing`, `archive_forged`, `archive_corrupt`, and as `objectstore`.
    """
    check_key(key)
    name = _newest(bucket, xx, day) if digest is None else layout.manifest_name(xx, day, digest)
    where = f"{bucket}/{name}"
    try:
        content, _ = bucket.read(name, MANIFEST_BYTES)
    except Refused as refused:
        if refused.code == "object_missing":
            raise _missing(where, xx, day) from refused
        if refused.code == "object_changed":
            raise Refused("archive_corrupt", refused.detail) from refused
        raise
    found = signed.decode(content, where, key, xx=xx, day=day)
    if found.manifest.digest[: layout.GENERATION] != name.rpartition("/")[2].partition(".")[0]:
        raise Refused("archive_forged", f"{where} is the manifest of another archive of that day")
    if digest is not None and found.manifest.digest != digest:
        raise Refused("archive_forged", f"the manifest {where} is not the one that the register names")
    return found


def _newest(bucket: Bucket, xx: int, day: date) -> str:
    place = layout.manifests_of(xx, day)
    found = [one for one in bucket.listed(place) if layout.generation_of(one.name) is not None]
    if not found:
        raise _missing(f"{bucket}/{place}", xx, day)
    return max(found, key=lambda one: (one.put_at, one.name)).name


def _missing(where: str, xx: int, day: date) -> Refused:
    return Refused("archive_missing", f"there is no archive of {database_name(xx)} and {day}: no {where}")


def check_place(bucket: Bucket, manifest: Manifest, key: bytes) -> None:
    """Raise Refused `archive_of_another` if this very archive stands there under another key: it is another's copy.

    Archives with other digests have other names, and are in nobody's way.
    """
    name = layout.manifest_name(manifest.xx, manifest.day, manifest.digest)
    try:
        content, _ = bucket.read(name, MANIFEST_BYTES)
    except Refused as refused:
        if refused.code not in ("object_missing", "object_changed"):
            raise
        return
    said = signed.unproven(content)
    if said is not None and said.digest == manifest.digest and not said.is_signed(key):
        raise of_another(f"{bucket}/{name}")


def publish(bucket: Bucket, new: Path, manifest: Manifest, key: bytes) -> None:
    """Put the files of the folder `new`, and then the manifest, by which they count; durable on return.

    Of two that publish the same rows both succeed. Other archives of the day stay as they are. A kill before the
    manifest is put leaves files that nobody reads and that the next export of the same rows uses again. Raises Refused
    `bucket_full`, `bucket_denied`, `bucket_missing`; Unavailable `bucket_away`.
    """
    blocks = signed.blocks_of({name: new / name for name in manifest.files})
    for name in manifest.files:
        bucket.upload(layout.file_name(name, manifest.xx, manifest.day, manifest.digest), new / name)
    name = layout.manifest_name(manifest.xx, manifest.day, manifest.digest)
    content = signed.encode(manifest, blocks, key)
    try:
        bucket.create(name, content)
    except Refused as refused:
        if refused.code != "object_exists":
            raise
        standing, etag = bucket.read(name, MANIFEST_BYTES)
        if standing != content:
            # Spoilt (`check_place` has looked): the digest in its name is ours, so its content must be, too.
            bucket.replace(name, content, etag)


def check_files(bucket: Bucket, manifest: Manifest) -> None:
    """Read all files; raise Refused `archive_missing` or `archive_corrupt` unless they are those of the manifest."""
    for name, file in manifest.files.items():
        stored = layout.file_name(name, manifest.xx, manifest.day, manifest.digest)
        digest = hashlib.sha256()
        try:
            for chunk in bucket.stream(stored):
                digest.update(chunk)
        except Refused as refused:
            if refused.code == "object_missing":
                raise Refused("archive_missing", refused.detail) from refused
            raise
        if digest.hexdigest() != file.sha256:
            text = f"{bucket}/{stored} is not the file that was exported: its SHA-256 differs"
            raise Refused("archive_corrupt", text)


def fetch(bucket: Bucket, manifest: Manifest, name: str, path: Path) -> None:
    """Write a file of an archive to `path`, unchecked; raises OSError, and as `objectstore`."""
    stored = layout.file_name(name, manifest.xx, manifest.day, manifest.digest)
    with path.open("wb") as file:
        for chunk in bucket.stream(stored):
            file.write(chunk)


def sizes(bucket: Bucket, manifest: Manifest) -> dict[str, int | None]:
    """Return the size of each file as the store says, None if it is not there."""
    found: dict[str, int | None] = {}
    for name in manifest.files:
        try:
            found[name] = bucket.size(layout.file_name(name, manifest.xx, manifest.day, manifest.digest))
        except Refused as refused:
            if refused.code != "object_missing":
                raise
            found[name] = None
    return found


def discard_others(bucket: Bucket, known: Known, *, xx: int, day: date, digest: str) -> None:
    """Delete the objects of the known archives of a day and database but those of the one with this digest.

    Manifests first: an archive without one is nobody's. What the store lists late stays, and goes with the next call.
    """
    for place in _places(xx, day):
        bucket.delete(_others(bucket, place, known, digest))


def has_others(bucket: Bucket, known: Known, *, xx: int, day: date, digest: str) -> bool:
    """Say whether there is an object of a known archive of a day and database, not of the one with this digest."""
    return any(_others(bucket, place, known, digest) for place in _places(xx, day))


def _places(xx: int, day: date) -> list[str]:
    return [layout.manifests_of(xx, day), *layout.partitions_of(xx, day)]


def _others(bucket: Bucket, place: str, known: Known, digest: str) -> list[str]:
    others = {one[: layout.GENERATION] for one in known.digests} - {digest[: layout.GENERATION]}
    return [one.name for one in bucket.listed(place) if layout.generation_in(one.name) in others]
