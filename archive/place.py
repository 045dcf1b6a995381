"""Where an archive lies, and how it gets there: written aside, made durable, and put in its place in one step.

    ARCHIVE/2026-11-21/db_07/{envelope,claim,guest}.parquet, manifest.json

What stands beside it under a name with a dot in front is half an export; it counts for nothing, and the next export of
the same date and database removes it.
"""

import contextlib
import errno
import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import NamedTuple

from archive.manifest import NAME, Manifest, read
from archive.tables import TABLES
from envelope.errors import Refused
from sharding.slots import database_name

_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_DATABASE = re.compile(r"db_(\d\d)")
_CHUNK = 1 << 20
SPILL = ".spill"
"""Where DuckDB may put what does not fit into memory, beside what it writes."""


class Archive(NamedTuple):
    """Where archives lie, and the key that signs them."""

    folder: Path
    key: bytes


def folder_of(archive: Path, *, xx: int, day: date) -> Path:
    """Return the folder of one archive."""
    return archive / day.isoformat() / database_name(xx)


def archived(archive: Path) -> list[tuple[date, int]]:
    """Return (date, xx) of all archives that are there, in order. Nothing is said about their truth."""
    found = []
    for path in archive.glob(f"*/*/{NAME}"):
        database, day = path.parent.name, path.parent.parent.name
        number = _DATABASE.fullmatch(database)
        if number and _DATE.fullmatch(day):
            with contextlib.suppress(ValueError):
                found.append((date.fromisoformat(day), int(number[1])))
    return sorted(found)


@contextlib.contextmanager
def aside(archive: Path, *, xx: int, day: date) -> Iterator[Path]:
    """Give an empty folder to write an archive into; it is gone at the end unless `settle` has put it in its place.

    Raises Refused `archive_not_written` when the folder cannot be made.
    """
    final = folder_of(archive, xx=xx, day=day)
    new = final.with_name(f".{final.name}.new")
    try:
        if not final.exists() and (old := _old(final)).exists():
            old.rename(final)  # killed between the two steps of `settle`
        shutil.rmtree(new, ignore_errors=True)
        _ensure(archive)
        for folder in (final.parent, new):
            folder.mkdir(mode=0o700, exist_ok=True)
            _like(archive, folder)
    except OSError as error:
        raise not_written(final, error) from error
    try:
        yield new
    finally:
        shutil.rmtree(new, ignore_errors=True)


def settle(new: Path, manifest: bytes, archive: Path, *, xx: int, day: date) -> None:
    """Make what stands in `new` durable, with its manifest, and put it in its place, over an older export.

    Its owner and its mode are the archive's own: who can read that folder can read this, whoever exported it.
    """
    final = folder_of(archive, xx=xx, day=day)
    old = _old(final)
    try:
        shutil.rmtree(new / SPILL, ignore_errors=True)
        (new / NAME).write_bytes(manifest)
        for path in new.iterdir():
            _like(archive, path)
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
    shutil.rmtree(old, ignore_errors=True)


def _ensure(archive: Path) -> None:
    """Make the archive's own folder if need be: it belongs to whoever has the folder in which it stands."""
    if archive.exists():
        return
    archive.mkdir(parents=True)
    if os.geteuid() == 0:
        above = archive.parent.stat()
        os.chown(archive, above.st_uid, above.st_gid)


def _like(archive: Path, path: Path) -> None:
    """Give a folder or a file under the archive the archive's own mode, and its owner where we may (as root)."""
    root = archive.stat()
    if os.geteuid() == 0:
        os.chown(path, root.st_uid, root.st_gid)
    path.chmod(root.st_mode & (0o7777 if path.is_dir() else 0o666))


def _old(final: Path) -> Path:
    return final.with_name(f".{final.name}.old")


def not_written(where: Path, error: Exception) -> Refused:
    """Return the refusal for an export that the disk did not take."""
    full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
    why = "the disk is full" if full or "No space left" in str(error) else str(error).splitlines()[0]
    return Refused("archive_not_written", f"{where} was not written: {why}; make room, then export again")


def believed(archive: Archive, *, xx: int, day: date, digest: str | None = None) -> Manifest:
    """Return the manifest of an archive whose signature and files are right. Reads all of it.

    `digest` is what the register names, None where it names nothing yet. Raises Refused `archive_missing`,
    `archive_forged`, `archive_corrupt`.
    """
    where = folder_of(archive.folder, xx=xx, day=day)
    found = read(where, archive.key, xx=xx, day=day)
    if digest is not None and found.digest != digest:
        raise Refused("archive_forged", f"the manifest in {where} is not the one that the register names")
    check_files(where, found)
    return found


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
            while chunk := file.read(_CHUNK):
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
