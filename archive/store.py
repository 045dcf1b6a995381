"""Where archives are: a folder, or a place in an object store. What the archive's other modules ask of either.

A folder's files are checked whole before they are used (`verified`); those of an object store block by block as they
are read, and whole where that is asked for. An archive for an object store is first written to a folder under TMPDIR.
"""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from archive import place, settling
from archive.manifest import Manifest, read, sign
from archive.place import Archive, Root
from errors import Refused
from objectstore.address import is_address
from objectstore.bucket import Bucket, bucket_of

if TYPE_CHECKING:
    from archive.bucket.files import ArchiveFiles
    from archive.bucket.remote import RemoteFolder

Where: TypeAlias = "Path | RemoteFolder"
"""The folder of one archive, or what stands for it: `where / "claim.parquet"` is a file's path for DuckDB."""


SPOILT = ("archive_missing", "archive_corrupt", "archive_forged")
"""Codes that say that an archive is damaged. A store that is away, or denies access, proves no damage."""


class Opened(NamedTuple):
    """An archive whose manifest was checked."""

    manifest: Manifest
    where: Where


def root_of(text: str) -> Root:
    """Return the place that an operator names: a folder, or `s3://bucket/prefix`. Raises Refused `bucket_address`."""
    return bucket_of(text) if is_address(text) else Path(text)


def place_of(root: Root, *, xx: int, day: date) -> str:
    """Say to a person where the archive of a day and database is, or would be."""
    if isinstance(root, Bucket):
        from archive.bucket import layout  # noqa: PLC0415 - only for users of an object store

        return f"{root}/{layout.manifests_of(xx, day)}"
    return str(place.folder_of(root, xx=xx, day=day))


def archived(root: Root) -> list[tuple[date, int]]:
    """Return (date, xx) of all archives there, in order, unverified."""
    if isinstance(root, Bucket):
        from archive.bucket import publication  # noqa: PLC0415 - only for users of an object store

        return sorted({(one.day, one.xx) for one in publication.generations(root)})
    return place.archived(root)


def opened(
    archive: Archive, *, xx: int, day: date, digest: str | None = None, files: "ArchiveFiles | None" = None
) -> Opened:
    """Return an archive whose manifest is signed and, with a `digest`, the one that the register names.

    Without one, in an object store, it is the archive that was put last. The files are not looked at. Raises Refused
    `archive_missing`, `archive_forged`, `archive_corrupt`; of an object store, as `objectstore`.
    """
    root, key = archive
    if isinstance(root, Bucket):
        from archive.bucket import publication, remote  # noqa: PLC0415 - only for users of an object store

        return Opened(*remote.open_files(root, publication.find(root, key, xx=xx, day=day, digest=digest), files))
    where = place.folder_of(root, xx=xx, day=day)
    found = read(where, key, xx=xx, day=day)
    if digest is not None and found.digest != digest:
        raise Refused("archive_forged", f"the manifest in {where} is not the one that the register names")
    return Opened(found, where)


def check_files(archive: Archive, found: Opened) -> None:
    """Read all files; raise Refused `archive_missing` or `archive_corrupt` unless they are those of the manifest."""
    if isinstance(archive.folder, Bucket):
        from archive.bucket import publication  # noqa: PLC0415 - only for users of an object store

        publication.check_files(archive.folder, found.manifest)
    elif isinstance(found.where, Path):
        place.check_files(found.where, found.manifest)


def sizes(archive: Archive, found: Opened) -> dict[str, int | None]:
    """Return the sizes of the files as they are now, None of one that is not there."""
    if isinstance(archive.folder, Bucket):
        from archive.bucket import publication  # noqa: PLC0415 - only for users of an object store

        return publication.sizes(archive.folder, found.manifest)
    paths = {name: Path(str(found.where / name)) for name in found.manifest.files}
    return {name: path.stat().st_size if path.exists() else None for name, path in paths.items()}


def verified(archive: Archive, *, xx: int, day: date, digest: str | None = None) -> Opened:
    """Open an archive and check all its files, reading them whole; raises Refused as `opened` and `check_files`."""
    found = opened(archive, xx=xx, day=day, digest=digest)
    check_files(archive, found)
    return found


@contextlib.contextmanager
def staging(root: Root, *, xx: int, day: date) -> Iterator[Path]:
    """Give an empty folder to write an archive to; removed at the end unless `publish` has moved it.

    Raises Refused `archive_not_written` if it cannot be created.
    """
    if not isinstance(root, Bucket):
        with place.staging(root, xx=xx, day=day) as new:
            yield new
        return
    try:
        spool = tempfile.TemporaryDirectory(prefix="hongbao-archive-")
    except OSError as error:
        raise place.not_written(place_of(root, xx=xx, day=day), error) from error
    with spool as name:
        yield Path(name)


def publish(new: Path, manifest: Manifest, archive: Archive, *, keep_old: bool = False) -> None:
    """Sign the manifest and have the files of the folder `new` count, beside or in the place of an older export.

    With `keep_old` a folder's older one stays until `discard_others`, or `settle`; in an object store it always does.
    Durable on return. Raises Refused `archive_not_written`; of an object store, as `bucket.publication.publish`.
    """
    root, key = archive
    if isinstance(root, Bucket):
        from archive.bucket import publication  # noqa: PLC0415 - only for users of an object store

        publication.publish(root, new, manifest, key)
        return
    place.publish(new, sign(manifest, key), root, xx=manifest.xx, day=manifest.day, keep_old=keep_old)


def discard_others(root: Root, *, xx: int, day: date, digest: str) -> None:
    """Remove what was published of a day and database before the archive with this digest, which the register names.

    Raises OSError of a folder; of an object store, as `objectstore`.
    """
    if isinstance(root, Bucket):
        from archive.bucket import publication  # noqa: PLC0415 - only for users of an object store

        publication.discard_others(root, xx=xx, day=day, digest=digest)
        return
    final = place.folder_of(root, xx=xx, day=day)
    if place.replaced(final).exists():
        place.discard_replaced(final)


def settle(archive: Archive, *, xx: int, day: date, digest: str) -> None:
    """After a kill between publication and commit: have only the archive stand that the register names (`digest`).

    Does nothing if there is no other. Raises Refused `archive_not_written`; of an object store, as `objectstore`.
    """
    root, key = archive
    if not isinstance(root, Bucket):
        settling.settle(root, key, xx=xx, day=day, digest=digest)
        return
    from archive.bucket import publication  # noqa: PLC0415 - only for users of an object store

    if not publication.others(root, xx=xx, day=day, digest=digest):
        return
    try:
        verified(archive, xx=xx, day=day, digest=digest)
    except Refused as refused:
        if refused.code not in SPOILT:
            raise
        return  # what else is there may be all that is left: nothing is removed
    discard_others(root, xx=xx, day=day, digest=digest)


def fetch(archive: Archive, found: Opened, name: str, path: Path) -> None:
    """Copy a file of an archive to `path`; raises Refused `archive_not_written`, and as `objectstore`."""
    try:
        if isinstance(archive.folder, Bucket):
            from archive.bucket import publication  # noqa: PLC0415 - only for users of an object store

            publication.fetch(archive.folder, found.manifest, name, path)
        else:
            shutil.copyfile(str(found.where / name), path)
    except OSError as error:
        raise place.not_written(path, error) from error


def disk_of(root: Root) -> Path:
    """Return a folder on the disk that an export fills: the archive's own, or that of the files on their way up."""
    return Path(tempfile.gettempdir()) if isinstance(root, Bucket) else root
