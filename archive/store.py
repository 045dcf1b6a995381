"""Where archives are: a folder, or a place in an object store. What the archive's other modules ask of either."""

import contextlib
from collections.abc import Collection, Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from archive.in_folder import InFolder
from archive.kept_in import KeptIn, Opened
from archive.known import Known
from archive.manifest import Manifest
from archive.place import Archive, Root, not_written
from objectstore.address import is_address
from objectstore.bucket import Bucket, bucket_of

if TYPE_CHECKING:
    from archive.bucket.files import ArchiveFiles


def root_of(text: str) -> Root:
    """Return the place that an operator names: a folder, or `s3://bucket/prefix`. Raises Refused `bucket_address`."""
    return bucket_of(text) if is_address(text) else Path(text)


def _kept_in(root: Root) -> KeptIn:
    if isinstance(root, Bucket):
        from archive.bucket.in_bucket import InBucket  # noqa: PLC0415 - only for users of an object store

        return InBucket(root)
    return InFolder(root)


def place_of(root: Root, *, xx: int, day: date) -> str:
    """Say to a person where the archive of a day and database is, or would be."""
    return _kept_in(root).name(xx=xx, day=day)


def archived(root: Root) -> list[tuple[date, int]]:
    """Return (date, xx) of all archives there, in order, unverified."""
    return _kept_in(root).archived()


def unnamed(root: Root, named: Mapping[tuple[date, int], Collection[str]]) -> list[str]:
    """Say where there are archives, unverified, that no register names: nothing of ours reads them.

    `named` has digests of manifests by (date, xx). A damaged manifest in a folder is taken for the one that is named.
    """
    return [
        one.where
        for one in _kept_in(root).writings()
        if not any(digest.startswith(one.digest) for digest in named.get((one.day, one.xx), ()))
    ]


def opened(
    archive: Archive, *, xx: int, day: date, digest: str | None = None, files: "ArchiveFiles | None" = None
) -> Opened:
    """Return an archive whose manifest is signed and, with a `digest`, the one that the register names.

    Without one, in an object store, it is the archive that was put last. The files are not looked at. Raises Refused
    `archive_missing`, `archive_forged`, `archive_corrupt`; of an object store, as `objectstore`.
    """
    return _kept_in(archive.folder).opened(archive.key, xx=xx, day=day, digest=digest, files=files)


def check_files(archive: Archive, found: Opened) -> None:
    """Read all files; raise Refused `archive_missing` or `archive_corrupt` unless they are those of the manifest."""
    _kept_in(archive.folder).check_files(found)


def sizes(archive: Archive, found: Opened) -> dict[str, int | None]:
    """Return the sizes of the files as they are now, None of one that is not there."""
    return _kept_in(archive.folder).sizes(found)


def verified(archive: Archive, *, xx: int, day: date, digest: str | None = None) -> Opened:
    """Open an archive and check all its files, reading them whole; raises Refused as `opened` and `check_files`."""
    found = opened(archive, xx=xx, day=day, digest=digest)
    check_files(archive, found)
    return found


@contextlib.contextmanager
def staging(root: Root, *, xx: int, day: date) -> Iterator[Path]:
    """Give an empty folder to write an archive to; removed at the end unless `publish` has moved it.

    Raises Refused `archive_not_written` if it cannot be created; `archive_busy` if another process writes that archive.
    """
    with _kept_in(root).staging(xx=xx, day=day) as new:
        yield new


def check_place(manifest: Manifest, archive: Archive, known: Known) -> None:
    """Raise Refused `archive_of_another` if `publish` would; before the archive is announced. Changes nothing."""
    _kept_in(archive.folder).check_place(manifest, archive.key, known)


def publish(new: Path, manifest: Manifest, archive: Archive, known: Known, *, keep_old: bool = False) -> None:
    """Sign the manifest and have the files of the folder `new` count, beside or in the place of an older export.

    `known` is what this installation knew of the day before it announced this archive. With `keep_old` a folder's older
    one stays until `discard_others`, or `settle`; in an object store it always does. Durable on return. Raises Refused
    `archive_not_written`, `archive_of_another`; of an object store, as `bucket.publication.publish`.
    """
    _kept_in(archive.folder).publish(new, manifest, archive.key, known, keep_old=keep_old)


def discard_others(archive: Archive, known: Known, *, xx: int, day: date, digest: str) -> None:
    """Remove what was published of a day and database before the archive with this digest, which the register names.

    What is not `known` stays. Raises OSError of a folder; of an object store, as `objectstore`.
    """
    _kept_in(archive.folder).discard_others(archive.key, known, xx=xx, day=day, digest=digest)


def settle(archive: Archive, known: Known, *, xx: int, day: date, digest: str) -> None:
    """After a kill between publication and commit: have of what is known only the archive with this digest stand.

    It is the one that the register names. Does nothing if there is no other, and removes nothing unless that one is
    whole. Raises Refused `archive_not_written`, `archive_of_another`; of an object store, as `objectstore`.
    """
    _kept_in(archive.folder).settle(archive.key, known, xx=xx, day=day, digest=digest)


def fetch(archive: Archive, found: Opened, name: str, path: Path) -> None:
    """Copy a file of an archive to `path`; raises Refused `archive_not_written`, and as `objectstore`."""
    try:
        _kept_in(archive.folder).fetch(found, name, path)
    except OSError as error:
        raise not_written(path, error) from error


def disk_of(root: Root) -> Path:
    """Return a folder on the disk that an export fills: the archive's own, or that of the files on their way up."""
    return _kept_in(root).disk
