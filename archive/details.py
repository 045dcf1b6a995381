"""One envelope out of an archive: the row group that holds it, and no more. Everything here blocks.

An archive is believed once its manifest is signed, has the digest that the register names, and its files have the
hashes of the manifest. That is remembered for as long as the files on the disk are the same ones.
"""

import os
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from archive import engine, manifest, place
from archive.tables import FILES
from envelope.errors import Refused
from schema.names import Kind
from sharding.ids import day_of, slot_of
from sharding.slots import database_of

if TYPE_CHECKING:
    import duckdb

BELIEVED = 65_536
"""Archives whose truth is remembered, those asked for last: three years of 60 databases. An entry has 300 bytes."""
MEMORY_MB = 96
"""A row group of claims decodes to 2 MB; the rest keeps what was read lately."""


def in_ms(column: str) -> str:
    """Return an instant in milliseconds, rounded as Postgres rounds (`extract(epoch …) * 1000` as bigint)."""
    return f"(epoch_us({column}) + 500) // 1000"


_HEADER = f"""
SELECT envelope_id, sender, kind, split, split_version, total_fen, shares, greeting, seed, create_key, named,
    password_mac, {in_ms("created_at")} AS created_at_ms, {in_ms("opens_at")} AS opens_at_ms,
    {in_ms("expires_at")} AS expires_at_ms
FROM read_parquet(?) WHERE envelope_id = ?
"""  # noqa: S608 - our own column names
_CLAIMS = f"""
SELECT seq, kind, user_id, amount_fen, {in_ms("claimed_at")} FROM read_parquet(?) WHERE envelope_id = ? ORDER BY seq
"""  # noqa: S608 - our own column names
_GUESTS = "SELECT user_id, wrong_tries, invited FROM read_parquet(?) WHERE envelope_id = ?"


class Doubted(Exception):
    """The archive has not been believed yet, or has changed: all of it would have to be read first."""


class Details:
    """Reads envelopes; may be used by several threads at once."""

    def __init__(self, archive: Path, key: bytes) -> None:
        self._archive = archive
        self._key = key
        self._duck: duckdb.DuckDBPyConnection | None = None
        self._believed: OrderedDict[Path, tuple[object, ...]] = OrderedDict()
        self._one = Lock()

    def read(self, envelope_id: int, digest: str | None, *, believe: bool = True) -> Mapping[str, Any] | None:
        """Return an envelope with its log and guests, in the form of `load_envelopes`; None when there is none.

        `digest` is what the register names. Raises Refused `archive_missing`, `archive_forged`, `archive_corrupt`;
        Doubted, unless it may `believe`, where a whole archive would have to be read before.
        """
        where = self._trusted(envelope_id, digest, believe=believe)
        with engine.reading(where):
            duck = self._engine().cursor()
            try:
                return _read(duck, where, envelope_id)
            finally:
                duck.close()

    def _trusted(self, envelope_id: int, digest: str | None, *, believe: bool) -> Path:
        day, xx = day_of(envelope_id), database_of(slot_of(envelope_id))
        where = place.folder_of(self._archive, xx=xx, day=day)
        try:
            seen = (digest, *(_stamp(where / name) for name in (manifest.NAME, *FILES.values())))
        except OSError as error:
            raise Refused("archive_missing", f"{error.filename} is missing or cannot be read") from error
        with self._one:
            if self._believed.get(where) == seen:
                self._believed.move_to_end(where)
                return where
        if not believe:
            raise Doubted
        place.believed(place.Archive(self._archive, self._key), xx=xx, day=day, digest=digest)
        with self._one:
            self._believed[where] = seen
            self._believed.move_to_end(where)
            while len(self._believed) > BELIEVED:
                self._believed.popitem(last=False)
        return where

    def _engine(self) -> "duckdb.DuckDBPyConnection":
        if self._duck is None:
            duck = engine.connect(memory_mb=MEMORY_MB, threads=engine.IN_ORDER)
            duck.execute(f"SET allowed_directories = [{engine.quoted(self._archive.absolute())}]")
            engine.confine(duck, ())
            self._duck = duck
        return self._duck


def _stamp(path: Path) -> tuple[int, int, int]:
    stat = os.stat(path)  # noqa: PTH116 - as little as possible, four times a read
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


def _read(duck: "duckdb.DuckDBPyConnection", where: Path, envelope_id: int) -> Mapping[str, Any] | None:
    cursor = duck.execute(_HEADER, [str(where / FILES[Kind.ENVELOPE]), envelope_id])
    names = [column[0] for column in cursor.description or ()]
    header = cursor.fetchone()
    if header is None:
        return None
    claims = engine.fetch(duck, _CLAIMS, str(where / FILES[Kind.CLAIM]), envelope_id)
    guests = engine.fetch(duck, _GUESTS, str(where / FILES[Kind.GUEST]), envelope_id)
    row = dict(zip(names, header, strict=True))
    row |= dict(zip(("seqs", "kinds", "users", "amounts", "times"), _columns(claims, 5), strict=True))
    row |= dict(zip(("guests", "tries", "invitations"), _columns(guests, 3), strict=True))
    return row


def _columns(rows: list[tuple[Any, ...]], width: int) -> list[tuple[Any, ...]]:
    return list(zip(*rows, strict=True)) or [()] * width
