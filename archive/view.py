"""Queries over the archive: one SELECT on the views `envelope`, `claim` and `guest` over all archived days.

Each view has the columns of its table and `day` (the business date) and `xx` (the database); a condition on these reads
only the files it selects. Signatures of manifests and sizes of files are checked, and that no archive of the registers
is missing. Hashes of the files are checked only if that is asked for: it reads all of them, also those that a query of
one day does not touch. Blocks, with a deadline; memory is bounded; no other file, network or setting is accessible.
"""

import contextlib
import threading
from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from archive import engine, manifest, store
from archive.limits import QUERY_MEMORY_MB, QUERY_S
from archive.place import Archive
from archive.tables import TABLES, Table, in_parquet, tables_of
from errors import Refused
from objectstore.bucket import Bucket
from sharding.slots import database_name

if TYPE_CHECKING:
    import duckdb

_DAY = r"'(\d{4}-\d\d-\d\d)/db_\d\d/[a-z]+\.parquet$', 1"
_XX = r"'/db_(\d\d)/[a-z]+\.parquet$', 1"


class QueryResult(NamedTuple):
    """Result of a query: names and types of its columns, rows, and whether there were `more` than the limit.

    `left_out`: archives that were not queried, each with the reason.
    """

    columns: list[str]
    types: list[str]
    rows: list[tuple[Any, ...]]
    more: bool
    left_out: list[str]


Files: TypeAlias = dict[int, list[str]]
"""The paths of the files of one table by the format of their archives."""
Registered: TypeAlias = Mapping[tuple[date, int], str]
"""The archives of the registers: (day, database) and the digest of the manifest."""


def query(
    archive: Archive,
    sql: str,
    *,
    limit: int,
    registered: Registered | None = None,
    hashes: bool = False,
    timeout_s: float = QUERY_S,
) -> QueryResult:
    """Run one SELECT over the archive; returns up to `limit` rows, instants as text in UTC.

    `registered`: what must be there, None if no register could be read. `hashes`: read and verify all files first, for
    which `timeout_s` does not count. Raises Refused `query_only_select`, `query_invalid` (with what DuckDB says),
    `query_too_large`, `query_too_slow`.
    """
    reads = _file_system(archive)
    files, left_out = _usable_files(archive, registered or {}, reads, hashes=hashes)
    duck = engine.connect(memory_mb=QUERY_MEMORY_MB, reads=reads)
    try:
        for table in TABLES:
            duck.execute(f"CREATE VIEW {table.kind.value} AS {_view(table, files[table.file])}")
        engine.confine(duck, [path for by_format in files.values() for some in by_format.values() for path in some])
        with _bounded(duck, timeout_s), _translated(reads):
            columns, types, statement = _prepared(duck, sql)
            rows = duck.execute(statement).fetchmany(limit + 1)
    finally:
        duck.close()
    return QueryResult(columns, types, rows[:limit], len(rows) > limit, left_out)


def _file_system(archive: Archive) -> Any:
    """Return what an archive in an object store is read through; None for a folder."""
    if not isinstance(archive.folder, Bucket):
        return None
    from archive.bucket.files import ArchiveFiles  # noqa: PLC0415 - only for users of an object store

    return ArchiveFiles(archive.folder)


def _usable_files(
    archive: Archive, registered: Registered, reads: Any, *, hashes: bool
) -> tuple[dict[str, Files], list[str]]:
    """Return the files of all archives whose manifest is signed and whose files have its sizes, and those left out."""
    manifest.check_key(archive.key)
    files: dict[str, Files] = {table.file: {} for table in TABLES}
    left_out = []
    for day, xx in sorted({*store.archived(archive.folder), *registered}):
        try:
            opened = store.opened(archive, xx=xx, day=day, digest=registered.get((day, xx)), files=reads)
            if hashes:
                store.check_files(archive, opened)
            seen, stated = store.sizes(archive, opened), opened.manifest.files
            if lacking := [name for name in files if seen[name] is None]:
                raise Refused("archive_missing", f"{', '.join(lacking)} is missing in {opened.where}")
            wrong = [name for name in files if seen[name] != stated[name].size]
        except (Refused, OSError, KeyError) as error:
            left_out.append(f"{day} {database_name(xx)}: {getattr(error, 'detail', None) or error}")
        else:
            if wrong:
                left_out.append(f"{day} {database_name(xx)}: {', '.join(wrong)} has another size than was exported")
                continue
            for name, by_format in files.items():
                path = opened.where / name
                text = str(path.absolute() if isinstance(path, Path) else path)
                by_format.setdefault(opened.manifest.format, []).append(text)
    return files, left_out


def _view(table: Table, files: Files) -> str:
    parts = [_rows_of(table, form, some) for form, some in sorted(files.items())]
    if not parts:
        columns = ", ".join(f"NULL::{form.value} AS {name}" for name, form in table.columns.items())
        return f"SELECT {columns}, NULL::DATE AS day, NULL::INTEGER AS xx WHERE false"
    return " UNION ALL ".join(parts)


def _rows_of(table: Table, form: int, files: list[str]) -> str:
    """Return the SELECT of the files of one format: columns that it lacks are NULL."""
    stored = next(one.columns for one in tables_of(form) if one.kind is table.kind)
    columns = ", ".join(
        name if name in stored else f"NULL::{kind.value} AS {name}" for name, kind in table.columns.items()
    )
    listed = ", ".join(engine.quoted(path) for path in files)
    return (
        f"SELECT {columns}, regexp_extract(filename, {_DAY})::DATE AS day, "  # noqa: S608 - our names
        f"regexp_extract(filename, {_XX})::INTEGER AS xx FROM {in_parquet(f'[{listed}], filename = true')}"
    )


def _prepared(duck: "duckdb.DuckDBPyConnection", sql: str) -> tuple[list[str], list[str], str]:
    """Return names and types of the columns, and the statement, with types that Python does not have cast to text."""
    text = engine.one_select(duck, sql)
    if text is None:
        raise Refused("query_only_select", "give one SELECT; the archive is only read")
    described = duck.execute(f"DESCRIBE {text}").fetchall()
    columns, types = [row[0] for row in described], [row[1] for row in described]
    if "TIMESTAMP WITH TIME ZONE" in types:
        numbered = [f"c{number}" for number in range(len(columns))]
        shown = ", ".join(
            f"{name}::VARCHAR" if kind == "TIMESTAMP WITH TIME ZONE" else name
            for name, kind in zip(numbered, types, strict=True)
        )
        text = f"SELECT {shown} FROM ({text}\n) AS asked ({', '.join(numbered)})"  # noqa: S608 - it is the user's own
    return columns, types, text


@contextlib.contextmanager
def _bounded(duck: "duckdb.DuckDBPyConnection", timeout_s: float) -> Iterator[None]:
    """End the block's statement after `timeout_s`; raises Refused `query_too_slow` then."""
    late = threading.Event()

    def end() -> None:
        late.set()
        duck.interrupt()

    timer = threading.Timer(timeout_s, end)
    timer.start()
    try:
        yield
    except Exception as error:
        if not late.is_set():
            raise
        sentence = f"the query was not over after {timeout_s:g} s; ask for fewer days, or give --timeout"
        raise Refused("query_too_slow", sentence) from error
    finally:
        timer.cancel()
        # So that it cannot interrupt what the connection does next.
        timer.join()


@contextlib.contextmanager
def _translated(reads: Any) -> Iterator[None]:
    """Translate DuckDB's errors to Refused; of an object store, raise its own."""
    try:
        yield
    except Exception as error:
        fault = engine.fault_of(error)
        if fault is None:
            raise
        if (of_store := engine.read_fault(reads)) is not None:
            raise of_store from error
        if fault is engine.Fault.MEMORY:
            sentence = f"the query needs more than {QUERY_MEMORY_MB} MB; ask for fewer days, or aggregate"
            raise Refused("query_too_large", sentence) from error
        if fault is engine.Fault.PERMISSION:
            sentence = "a query reads the views envelope, claim and guest and nothing else"
            raise Refused("query_only_select", sentence) from error
        raise Refused("query_invalid", str(error).strip()) from error
