"""The columns of an archive, and the canonical form of its rows between Postgres and Parquet, which is hashed.

A canonical row is a line of CSV as in RFC 4180, ended by LF: the columns in the order below, numbers in decimal,
`true` or `false`, instants as `2026-11-21T04:00:00.123456Z`, texts always in double quotes (a quote within doubled),
NULL as nothing at all. Rows stand in the order of `order`, texts by their bytes in UTF-8. The digest of a table is
the SHA-256 of all its lines: it depends on no machine, collation or version of Parquet, and `sha256sum` can compute it.
"""

from collections.abc import Mapping
from datetime import date
from enum import Enum
from typing import NamedTuple

from archive.limits import CLAIMS_ROW_GROUP, HEADERS_ROW_GROUP
from errors import Refused
from runtime.postgres import Connection
from schema import names
from schema.names import TableKind
from sharding.slots import database_name, slots_of


class ColumnType(Enum):
    """How a column is written: its type in Parquet (DuckDB's name)."""

    LONG = "BIGINT"
    INT = "INTEGER"
    SHORT = "SMALLINT"
    TRUTH = "BOOLEAN"
    INSTANT = "TIMESTAMPTZ"
    TEXT = "VARCHAR"


class Table(NamedTuple):
    """One of the three tables: its columns in canonical order, the order of its rows, its rows per row group."""

    kind: TableKind
    columns: Mapping[str, ColumnType]
    order: tuple[str, ...]
    row_group: int = CLAIMS_ROW_GROUP

    @property
    def file(self) -> str:
        """Name its file in an archive."""
        return f"{self.kind.value}.parquet"

    @property
    def texts(self) -> list[str]:
        """Return the columns that are always quoted."""
        return [name for name, form in self.columns.items() if form is ColumnType.TEXT]


_LONG, _INT, _SHORT, _TRUTH, _INSTANT, _TEXT = ColumnType

TABLES = (
    Table(
        TableKind.ENVELOPE,
        {
            "envelope_id": _LONG, "total_fen": _LONG, "created_at": _INSTANT, "opens_at": _INSTANT,
            "expires_at": _INSTANT, "shares": _INT, "slot": _SHORT, "split_version": _SHORT,
            "kind": _TEXT, "split": _TEXT, "named": _TRUTH, "sender": _TEXT, "seed": _TEXT,
            "create_key": _TEXT, "password_mac": _TEXT, "greeting": _TEXT,
            "min_fen": _LONG, "max_fen": _LONG, "header_seal": _TEXT,
        },
        ("envelope_id",),
        HEADERS_ROW_GROUP,
    ),
    Table(
        TableKind.CLAIM,
        {
            "envelope_id": _LONG, "amount_fen": _LONG, "claimed_at": _INSTANT, "seq": _INT,
            "shares": _INT, "slot": _SHORT, "kind": _TEXT, "user_id": _TEXT,
        },
        ("envelope_id", "seq"),
    ),
    Table(
        TableKind.GUEST,
        {
            "envelope_id": _LONG, "slot": _SHORT, "wrong_tries": _SHORT, "invited": _TRUTH,
            "user_id": _TEXT,
        },
        ("envelope_id", "user_id"),
    ),
)  # fmt: skip


FILES = {table.kind: table.file for table in TABLES}
FORMAT = 2
"""The form of archives that are written now: TABLES."""
_SINCE_2 = ("min_fen", "max_fen", "header_seal")
"""Columns of `envelope` that archives of format 1 do not have; they are NULL there."""


def tables_of(form: int) -> tuple[Table, ...]:
    """Return the tables of an archive of this format; raises Refused `archive_format_unknown`."""
    if form == FORMAT:
        return TABLES
    if form != 1:
        raise Refused("archive_format_unknown", f"the archive has format {form}; this version reads 1 and {FORMAT}")
    headers, *others = TABLES
    columns = {name: kind for name, kind in headers.columns.items() if name not in _SINCE_2}
    return headers._replace(columns=columns), *others


def in_parquet(files: str = "?") -> str:
    """Return the DuckDB source of the rows of Parquet files (arguments of `read_parquet`): of their columns alone.

    DuckDB takes any folder `name=value` on the way to a file for a column, and lets it win over the file's own.
    """
    return f"read_parquet({files}, hive_partitioning = false)"


def parquet_rows(table: Table, files: str) -> str:
    """Return the DuckDB source of the rows of files of any format: columns that a file lacks are NULL.

    `files` are arguments of `read_parquet`.
    """
    columns = ", ".join(f"NULL::{form.value} AS {name}" for name, form in table.columns.items())
    return f"(SELECT {columns} WHERE false UNION ALL BY NAME SELECT * FROM {in_parquet(files)})"  # noqa: S608 - ours


def of_database(xx: int) -> str:
    """Return the condition that selects the rows of database `xx` of a day table (and prunes all other leaves)."""
    return f"slot IN ({', '.join(map(str, slots_of(xx)))})"


def canonical_in_postgres(table: Table, source: str, condition: str = "true") -> str:
    """Return the query whose COPY as CSV (FORCE_QUOTE `table.texts`) gives the canonical rows of `source`."""
    columns = ", ".join(_in_postgres(name, form) for name, form in table.columns.items())
    order = ", ".join(f'{name} COLLATE "C"' if table.columns[name] is ColumnType.TEXT else name for name in table.order)
    return f"SELECT {columns} FROM {source} WHERE {condition} ORDER BY {order}"  # noqa: S608 - names from digits only


def _in_postgres(name: str, form: ColumnType) -> str:
    if form is ColumnType.INSTANT:
        return f"""to_char({name} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS {name}"""
    return f"{name}::text AS {name}" if form is ColumnType.TRUTH else name


def canonical_in_duckdb(table: Table) -> str:
    """Return the query (one parameter: the file) whose COPY as CSV gives the canonical rows of a Parquet file.

    The file's own order is kept; the digest proves that it is the canonical one.
    """
    columns = ", ".join(
        f"strftime({name}::TIMESTAMP, '%Y-%m-%dT%H:%M:%S.%fZ') AS {name}" if form is ColumnType.INSTANT else name
        for name, form in table.columns.items()
    )
    return f"SELECT {columns} FROM {in_parquet()}"  # noqa: S608 - our own column names


async def check_day(connection: Connection, xx: int, day: date) -> None:
    """Raise Refused `day_not_here` unless Postgres has all tables of the date for database `xx`.

    Raises Refused `archive_schema_unknown` if they have other columns than TABLES.
    """
    cold = names.cold(xx, day)
    for table in TABLES:
        source = names.day_table(table.kind, day)
        leaves = {row["leaf"] for row in await connection.fetch(_LEAVES, source, [names.database(xx), cold])}
        wanted = {names.leaf(table.kind, slot, day).partition(".")[2] for slot in slots_of(xx)}
        if not leaves >= wanted:
            raise Refused(
                "day_not_here",
                f"{source} has not all tables of {database_name(xx)} here; "
                "look at `hongbao rotate status` for where they are",
            )
        columns = {row["attname"] for row in await connection.fetch(_COLUMNS, source)}
        if columns != set(table.columns):
            raise Refused(
                "archive_schema_unknown",
                f"{source} has other columns than an archive: {', '.join(sorted(columns ^ set(table.columns)))}; "
                "nothing was written",
            )


_LEAVES = """
SELECT c.relname AS leaf FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE i.inhparent = to_regclass('public.' || $1) AND n.nspname = ANY($2::text[])
"""
_COLUMNS = """
SELECT attname FROM pg_attribute
WHERE attrelid = to_regclass('public.' || $1) AND attnum > 0 AND NOT attisdropped
"""
