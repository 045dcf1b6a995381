"""An archive in a folder: written to a staging folder, made durable, and published by a rename.

`store` knows both kinds of place.

    ARCHIVE/2026-11-21/db_07/{envelope,claim,guest}.parquet, manifest.json

Folders whose names begin with a dot are unfinished exports (`.db_07.new`) or replaced ones (`.db_07.old`): never read,
and removed by the next export of the same date and database. Between the two renames of a publication only `.old`
exists; the next export renames it back first.
"""

import contextlib
import errno
import fcntl
import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import NamedTuple, TypeAlias

from archive.limits import CHUNK_BYTES
from archive.manifest import NAME, Manifest
from archive.tables import TABLES
from errors import Refused
from objectstore.bucket import Bucket
from sharding.slots import database_name

_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_DATABASE = re.compile(r"db_(\d\d)")
SPILL = ".spill"
"""DuckDB's folder, within the staging folder, for data that exceeds its memory."""


Root: TypeAlias = Path | Bucket
"""Where an archive is."""


class Archive(NamedTuple):
    """The archive's folder, or its place in an object store, and the key that signs its manifests."""

    folder: Root
    key: bytes


def folder_of(archive: Path, *, xx: int, day: date) -> Path:
    """Return the folder of one archive."""
    return archive / day.isoformat() / database_name(xx)


def archived(archive: Path) -> list[tuple[date, int]]:
    """Return (date, xx) of all archives in the folder, in order, unverified."""
    found = []
    for path in archive.glob(f"*/*/{NAME}"):
        database, day = path.parent.name, path.parent.parent.name
        number = _DATABASE.fullmatch(database)
        if number and _DATE.fullmatch(day):
            with contextlib.suppress(ValueError):
                found.append((date.fromisoformat(day), int(number[1])))
    return sorted(found)


@contextlib.contextmanager
def staging(archive: Path, *, xx: int, day: date) -> Iterator[Path]:
    """Give an empty folder to write an archive to; removed at the end unless `publish` has moved it.

    One process at a time writes the archive of a day and database. Raises Refused `archive_busy`; `archive_not_written`
    if the folder cannot be created.
    """
    final = folder_of(archive, xx=xx, day=day)
    new = final.with_name(f".{final.name}.new")
    with contextlib.ExitStack() as stack:
        try:
            _ensure_folder(archive)
            final.parent.mkdir(mode=0o700, exist_ok=True)
            _copy_owner_and_mode(archive, final.parent)
            stack.enter_context(_alone_in(new))
            if not final.exists() and (old := replaced(final)).exists():
                old.rename(final)  # killed between the two renames of `publish`
            _empty(new)
            _copy_owner_and_mode(archive, new)
        except OSError as error:
            raise not_written(final, error) from error
        yield new


@contextlib.contextmanager
def _alone_in(new: Path) -> Iterator[None]:
    """Make the staging folder, hold its lock for the block, and remove the folder unless the block has published it.

    The kernel releases the lock however this process ends. A published folder has another name; a folder with the
    staging name is another process's then.
    """
    while True:
        new.mkdir(mode=0o700, exist_ok=True)
        handle = os.open(new, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            _lock(handle, new)
            # A process that held the lock may have published or removed this folder after we had opened it.
            if _is_still(new, handle):
                try:
                    yield
                finally:
                    if _is_still(new, handle):
                        shutil.rmtree(new, ignore_errors=True)
                return
        finally:
            os.close(handle)


def _lock(handle: int, new: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        text = f"another process is writing {new.parent}/{new.name.strip('.').removesuffix('.new')}: wait for it"
        raise Refused("archive_busy", text) from None


def _is_still(new: Path, handle: int) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), new.lstat())
    except FileNotFoundError:
        return False


def _empty(folder: Path) -> None:
    for one in folder.iterdir():
        shutil.rmtree(one) if one.is_dir() and not one.is_symlink() else one.unlink()


def publish(new: Path, manifest: bytes, archive: Path, *, xx: int, day: date, keep_old: bool = False) -> None:
    """Add the manifest to the folder `new`, make it durable (fsync), and rename it into place over an older export.

    Owner and mode are those of the archive's own folder, whichever user exported. With `keep_old` the older one stays
    beside it until `discard_replaced`, or `put_back`. Raises Refused `archive_not_written`.
    """
    final = folder_of(archive, xx=xx, day=day)
    old = replaced(final)
    try:
        shutil.rmtree(new / SPILL, ignore_errors=True)
        (new / NAME).write_bytes(manifest)
        for path in new.iterdir():
            _copy_owner_and_mode(archive, path)
            _fsync(path)
        _fsync(new)
        shutil.rmtree(old, ignore_errors=True)
        if final.exists():
            final.rename(old)
        new.rename(final)
        for folder in (final.parent, archive):
            _fsync(folder)
    except OSError as error:
        raise not_written(final, error) from error
    if not keep_old:
        shutil.rmtree(old, ignore_errors=True)


def put_back(final: Path) -> None:
    """Put the replaced archive of the folder `final` in its place again; raises OSError."""
    shutil.rmtree(final, ignore_errors=True)
    replaced(final).rename(final)
    _fsync(final.parent)


def discard_replaced(final: Path) -> None:
    """Remove the archive that was replaced in the folder `final`; raises OSError."""
    shutil.rmtree(replaced(final))
    _fsync(final.parent)


def _ensure_folder(archive: Path) -> None:
    """Create the archive's own folder if missing, 0700; as root, for the owner of the folder around it."""
    if archive.exists():
        return
    archive.mkdir(parents=True, mode=0o700)
    if os.geteuid() == 0:
        above = archive.parent.stat()
        os.chown(archive, above.st_uid, above.st_gid)


def _copy_owner_and_mode(archive: Path, path: Path) -> None:
    """Give a path under the archive the mode of the archive's folder and, as root, its owner."""
    root = archive.stat()
    if os.geteuid() == 0:
        os.chown(path, root.st_uid, root.st_gid)
    path.chmod(root.st_mode & (0o7777 if path.is_dir() else 0o666))


def replaced(final: Path) -> Path:
    """Name the folder of the archive that was replaced in `final`."""
    return final.with_name(f".{final.name}.old")


def not_written(where: object, error: Exception) -> Refused:
    """Return the error for an export that could not be written."""
    full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
    why = "the disk is full" if full or "No space left" in str(error) else str(error).splitlines()[0]
    return Refused("archive_not_written", f"{where} was not written: {why}; make room, then export again")


def check_files(folder: Path, manifest: Manifest) -> None:
    """Read all files; raise Refused `archive_missing` or `archive_corrupt` unless they are those of the manifest."""
    if set(manifest.files) != {table.file for table in TABLES}:
        raise Refused("archive_corrupt", f"the manifest in {folder} does not name the files of an archive")
    for name, file in manifest.files.items():
        if sha256_of(folder / name) != file.sha256:
            raise Refused("archive_corrupt", f"{folder / name} is not the file that was exported: its SHA-256 differs")


def sha256_of(path: Path) -> str:
    """Return the hex SHA-256 of a file's bytes; raises Refused `archive_missing` or `archive_corrupt`."""
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                digest.update(chunk)
    except FileNotFoundError:
        raise Refused("archive_missing", f"{path} is missing") from None
    except OSError as error:
        raise Refused("archive_corrupt", f"cannot read {path}: {error.strerror}") from error
    return digest.hexdigest()


def _fsync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
