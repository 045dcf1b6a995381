"""SQL over the archive: the views `envelope`, `claim` and `guest` over all archived days, to read and nothing else.

Each has the columns of its table and two more, `day` (the business date) and `xx` (the database). A condition on these
reads only the files that it means. Blocks; memory is bounded, and there is no way to other files, network or settings.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from archive import engine, manifest, place
from archive.place import Archive
from archive.tables import TABLES, Table
from envelope.errors import Refused
from sharding.slots import database_name

if TYPE_CHECKING:
    import duckdb

MEMORY_MB = 512
_DAY = r"'(\d{4}-\d\d-\d\d)/db_\d\d/[a-z]+\.parquet$', 1"
_XX = r"'/db_(\d\d)/[a-z]+\.parquet$', 1"


class Found(NamedTuple):
    """What a query gave: names and types of its columns, rows, whether there were more than the limit.

    `left_out` are the archives that were not asked, each with the reason: the answer does not speak of them.
    """

    columns: list[str]
    types: list[str]
    rows: list[tuple[Any, ...]]
    more: bool
    left_out: list[str]


def query(archive: Archive, sql: str, *, limit: int) -> Found:
    """Run one SELECT over the archive; returns up to `limit` rows, instants as text in UTC.

    Raises Refused `query_only_select`, `query_invalid` (with what DuckDB says), `query_too_large`.
    """
    files, left_out = _believable(archive)
    duck = engine.connect(memory_mb=MEMORY_MB)
    try:
        for table in TABLES:
            duck.execute(f"CREATE VIEW {table.kind.value} AS {_view(table, files[table.file])}")
        engine.confine(duck, [path for some in files.values() for path in some])
        with _clear():
            columns, types, statement = _understood(duck, sql)
            rows = duck.execute(statement).fetchmany(limit + 1)
    finally:
        duck.close()
    return Found(columns, types, rows[:limit], len(rows) > limit, left_out)


def _believable(archive: Archive) -> tuple[dict[str, list[Path]], list[str]]:
    """Return the files, by name, of all archives whose manifest is signed and whose files have its sizes.

    To hash them all would take minutes for a year; `hongbao archive verify` does.
    """
    manifest.check_key(archive.key)
    files: dict[str, list[Path]] = {table.file: [] for table in TABLES}
    left_out = []
    for day, xx in place.archived(archive.folder):
        where = place.folder_of(archive.folder, xx=xx, day=day)
        try:
            found = manifest.read(where, archive.key, xx=xx, day=day)
            wrong = [name for name in files if (where / name).stat().st_size != found.files[name].size]
        except (Refused, OSError, KeyError) as error:
            left_out.append(f"{day} {database_name(xx)}: {getattr(error, 'detail', None) or error}")
        else:
            if wrong:
                left_out.append(f"{day} {database_name(xx)}: {', '.join(wrong)} has another size than was exported")
                continue
            for name, some in files.items():
                some.append(where / name)
    return files, left_out


def _view(table: Table, files: list[Path]) -> str:
    if not files:
        columns = ", ".join(f"NULL::{form.value} AS {name}" for name, form in table.columns.items())
        return f"SELECT {columns}, NULL::DATE AS day, NULL::INTEGER AS xx WHERE false"
    listed = ", ".join(engine.quoted(path.absolute()) for path in files)
    return (
        f"SELECT {', '.join(table.columns)}, regexp_extract(filename, {_DAY})::DATE AS day, "  # noqa: S608 - our names
        f"regexp_extract(filename, {_XX})::INTEGER AS xx FROM read_parquet([{listed}], filename = true)"
    )


def _understood(duck: "duckdb.DuckDBPyConnection", sql: str) -> tuple[list[str], list[str], str]:
    """Return names and types of the columns, and the statement that gives them in types that Python has."""
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
def _clear() -> Iterator[None]:
    """Say in a sentence what DuckDB could not do."""
    try:
        yield
    except Exception as error:
        fault = engine.fault_of(error)
        if fault is None:
            raise
        if fault is engine.Fault.MEMORY:
            sentence = f"the query needs more than {MEMORY_MB} MB; ask for fewer days, or aggregate"
            raise Refused("query_too_large", sentence) from error
        if fault is engine.Fault.PERMISSION:
            sentence = "a query reads the views envelope, claim and guest and nothing else"
            raise Refused("query_only_select", sentence) from error
        raise Refused("query_invalid", str(error).strip()) from error
