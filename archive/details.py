"""Reads one envelope from an archive: the row groups that hold it, and no more. Everything here blocks.

An archive is read only after it was verified: its manifest is signed and has the digest that the register names, and
its files have the manifest's hashes. In a folder that is remembered until a file's inode, size or modification time
changes; in an object store each block is checked as it is read (`archive.bucket.files`), so that no file is read whole.
"""

import os
from collections import OrderedDict
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from archive import engine, manifest, place, store
from archive.kept_in import Where
from archive.limits import DETAIL_MEMORY_MB, OPENED, REMEMBERED, THREADS_IN_ORDER
from archive.place import Archive, Root
from archive.tables import FILES, TABLES, in_parquet, parquet_rows
from errors import Refused
from objectstore.bucket import Bucket
from schema.names import TableKind
from sharding.ids import database_for, day_of

if TYPE_CHECKING:
    import duckdb

    from archive.bucket.remote import RemoteFolder


def in_ms(column: str) -> str:
    """Return an instant in milliseconds, rounded as Postgres rounds (`extract(epoch …) * 1000` as bigint)."""
    return f"(epoch_us({column}) + 500) // 1000"


_HEADER = f"""
SELECT envelope_id, sender, kind, split, split_version, total_fen, shares, greeting, seed, create_key, named,
    password_mac,
    min_fen, max_fen, header_seal, {in_ms("created_at")} AS created_at_ms, {in_ms("opens_at")} AS opens_at_ms,
    {in_ms("expires_at")} AS expires_at_ms
FROM {parquet_rows(TABLES[0], "?")} WHERE envelope_id = ?
"""  # noqa: S608 - our own column names
_CLAIMS = f"""
SELECT seq, kind, user_id, amount_fen, {in_ms("claimed_at")} FROM {in_parquet()} WHERE envelope_id = ? ORDER BY seq
"""  # noqa: S608 - our own column names
_GUESTS = f"SELECT user_id, wrong_tries, invited FROM {in_parquet()} WHERE envelope_id = ?"  # noqa: S608 - ours


class NotVerifiedYet(Exception):
    """The archive was not verified yet, or has changed since: all of it has to be read first."""


class Details:
    """Reads envelopes; may be used by several threads at once."""

    def __init__(self, archive: Root, key: bytes) -> None:
        self._archive = archive
        self._key = key
        self._files = _InBucket(archive, key) if isinstance(archive, Bucket) else _InFolder(archive, key)
        self._duck: duckdb.DuckDBPyConnection | None = None
        self._one = Lock()

    def read(self, envelope_id: int, digest: str | None, *, may_verify: bool = True) -> Mapping[str, Any] | None:
        """Return an envelope with its log and guests, as a row of setnode's `load_envelopes`; None if there is none.

        `digest` is the manifest's as the register names it. If the archive has to be verified first, which reads all of
        it, that is done only with `may_verify`; else NotVerifiedYet is raised. In an object store it never has to be:
        what is read is checked as it is read. Raises Refused `archive_missing`, `archive_forged`, `archive_corrupt`; of
        an object store, as `objectstore`.
        """
        day, xx = day_of(envelope_id), database_for(envelope_id)
        where = self._files.find(xx, day, digest, may_verify=may_verify)
        with engine.reading(where):
            duck = self._engine().cursor()
            try:
                return _read(duck, where, envelope_id)
            finally:
                duck.close()

    def close(self) -> None:
        """Close the engine; nobody reads any more."""
        with self._one:
            if self._duck is not None:
                self._duck.close()
                self._duck = None

    def _engine(self) -> "duckdb.DuckDBPyConnection":
        with self._one:
            if self._duck is None:
                duck = engine.connect(memory_mb=DETAIL_MEMORY_MB, threads=THREADS_IN_ORDER, reads=self._files.read_by)
                duck.execute(f"SET allowed_directories = [{engine.quoted(self._files.below)}]")
                engine.confine(duck, ())
                self._duck = duck
            return self._duck


class _InFolder:
    """Finds archives in a folder; each is verified whole before its first use."""

    def __init__(self, archive: Path, key: bytes) -> None:
        self._archive = archive
        self._key = key
        self._verified: OrderedDict[Path, tuple[object, ...]] = OrderedDict()
        self._one = Lock()
        self.below = str(archive.absolute())
        """The place outside of which nothing is read."""
        self.read_by = None
        """The file system through which it is read: the machine's."""

    def find(self, xx: int, day: date, digest: str | None, *, may_verify: bool) -> Path:
        """Return the folder of a verified archive; raises as `Details.read`."""
        where = place.folder_of(self._archive, xx=xx, day=day)
        try:
            seen = (digest, *(_stamp(where / name) for name in (manifest.NAME, *FILES.values())))
        except OSError as error:
            raise Refused("archive_missing", f"{error.filename} is missing or cannot be read") from error
        with self._one:
            if self._verified.get(where) == seen:
                self._verified.move_to_end(where)
                return where
        if not may_verify:
            raise NotVerifiedYet
        store.verified(Archive(self._archive, self._key), xx=xx, day=day, digest=digest)
        with self._one:
            self._verified[where] = seen
            self._verified.move_to_end(where)
            while len(self._verified) > REMEMBERED:
                self._verified.popitem(last=False)
        return where


class _InBucket:
    """Finds archives in an object store, and remembers the manifests of those read last.

    Those never change: an archive that is written anew has another digest, and other objects.
    """

    def __init__(self, bucket: Bucket, key: bytes) -> None:
        from archive.bucket.files import ROOT, ArchiveFiles  # noqa: PLC0415 - only for users of an object store

        self._bucket = bucket
        self._key = key
        self._opened: OrderedDict[tuple[int, date], tuple[str | None, RemoteFolder]] = OrderedDict()
        self._one = Lock()
        self.below = ROOT
        self.read_by = ArchiveFiles(bucket)

    def find(self, xx: int, day: date, digest: str | None, *, may_verify: bool) -> "RemoteFolder":
        """Return an archive whose manifest was checked; raises as `Details.read`."""
        del may_verify
        with self._one:
            known = self._opened.get((xx, day))
            if known is not None and digest is not None and known[0] == digest:
                self._opened.move_to_end((xx, day))
                return known[1]
        from archive.bucket import publication, remote  # noqa: PLC0415 - only for users of an object store

        signed = publication.find(self._bucket, self._key, xx=xx, day=day, digest=digest)
        where = remote.open_files(self._bucket, signed, self.read_by)
        with self._one:
            gone = [] if known is None else [known[1]]
            self._opened[xx, day] = digest, where
            self._opened.move_to_end((xx, day))
            while len(self._opened) > OPENED:
                gone.append(self._opened.popitem(last=False)[1][1])
            for one in gone:
                if one.path != where.path:
                    one.close()
        return where


def _stamp(path: Path) -> tuple[int, int, int]:
    stat = os.stat(path)  # noqa: PTH116 - as little as possible, four times a read
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


def _read(duck: "duckdb.DuckDBPyConnection", where: Where, envelope_id: int) -> Mapping[str, Any] | None:
    cursor = duck.execute(_HEADER, [str(where / FILES[TableKind.ENVELOPE]), envelope_id])
    names = [column[0] for column in cursor.description or ()]
    header = cursor.fetchone()
    if header is None:
        return None
    claims = engine.fetch(duck, _CLAIMS, str(where / FILES[TableKind.CLAIM]), envelope_id)
    guests = engine.fetch(duck, _GUESTS, str(where / FILES[TableKind.GUEST]), envelope_id)
    row = dict(zip(names, header, strict=True))
    row |= dict(zip(("seqs", "kinds", "users", "amounts", "times"), _columns(claims, 5), strict=True))
    row |= dict(zip(("guests", "tries", "invitations"), _columns(guests, 3), strict=True))
    return row


def _columns(rows: list[tuple[Any, ...]], width: int) -> list[tuple[Any, ...]]:
    return list(zip(*rows, strict=True)) or [()] * width
