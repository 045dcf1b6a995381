"""The columns of an archive, and the one form in which its rows travel between Postgres and Parquet and are hashed.

A canonical row is a line of CSV as in RFC 4180, ended by LF: the columns in the order below, numbers in decimal,
`true` or `false`, instants as `2026-11-21T04:00:00.123456Z`, texts always in double quotes (a quote within doubled),
NULL as nothing at all. Rows stand in the order of `order`, texts by their bytes in UTF-8. The digest of a table is
the SHA-256 of all its lines. So it depends on no machine, no collation and no version of Parquet, and `sha256sum` can
compute it.
"""

from collections.abc import Mapping
from datetime import date
from enum import Enum
from typing import Any, NamedTuple

from envelope.errors import Refused
from schema import names
from schema.names import Kind
from sharding.slots import slots_of

CLAIMS_TOGETHER = 61_440
"""Rows of a row group of claims: six times the largest envelope, so that a detail reads one (two where it lies across a
border). Of 10^7 claims there are 163; with a third of the rows the longer footer cost more than the rows saved."""
HEADERS_TOGETHER = 8_192
"""Rows of a row group of headers, of which a detail needs one: 12 ms among 500,000, 17 ms with those of claims."""


class Form(Enum):
    """How a column is written: its type in Parquet (DuckDB's name)."""

    LONG = "BIGINT"
    INT = "INTEGER"
    SHORT = "SMALLINT"
    TRUTH = "BOOLEAN"
    INSTANT = "TIMESTAMPTZ"
    TEXT = "VARCHAR"


class Table(NamedTuple):
    """One of the three tables: its columns in canonical order, its rows' order, and how many rows stand together."""

    kind: Kind
    columns: Mapping[str, Form]
    order: tuple[str, ...]
    row_group: int = CLAIMS_TOGETHER

    @property
    def file(self) -> str:
        """Name its file in an archive."""
        return f"{self.kind.value}.parquet"

    @property
    def texts(self) -> list[str]:
        """Return the columns that are always quoted."""
        return [name for name, form in self.columns.items() if form is Form.TEXT]


TABLES = (
    Table(
        Kind.ENVELOPE,
        {
            "envelope_id": Form.LONG, "total_fen": Form.LONG, "created_at": Form.INSTANT, "opens_at": Form.INSTANT,
            "expires_at": Form.INSTANT, "shares": Form.INT, "slot": Form.SHORT, "split_version": Form.SHORT,
            "kind": Form.TEXT, "split": Form.TEXT, "named": Form.TRUTH, "sender": Form.TEXT, "seed": Form.TEXT,
            "create_key": Form.TEXT, "password_mac": Form.TEXT, "greeting": Form.TEXT,
        },
        ("envelope_id",),
        HEADERS_TOGETHER,
    ),
    Table(
        Kind.CLAIM,
        {
            "envelope_id": Form.LONG, "amount_fen": Form.LONG, "claimed_at": Form.INSTANT, "seq": Form.INT,
            "shares": Form.INT, "slot": Form.SHORT, "kind": Form.TEXT, "user_id": Form.TEXT,
        },
        ("envelope_id", "seq"),
    ),
    Table(
        Kind.GUEST,
        {
            "envelope_id": Form.LONG, "slot": Form.SHORT, "wrong_tries": Form.SHORT, "invited": Form.TRUTH,
            "user_id": Form.TEXT,
        },
        ("envelope_id", "user_id"),
    ),
)  # fmt: skip


FILES = {table.kind: table.file for table in TABLES}


def of_database(xx: int) -> str:
    """Return the condition on a day table that leaves the rows of database `xx` and prunes all other leaves."""
    return f"slot IN ({', '.join(map(str, slots_of(xx)))})"


def canonical_in_postgres(table: Table, source: str, condition: str = "true") -> str:
    """Return the query whose COPY as CSV (FORCE_QUOTE `table.texts`) gives the canonical rows of `source`."""
    columns = ", ".join(_in_postgres(name, form) for name, form in table.columns.items())
    order = ", ".join(f'{name} COLLATE "C"' if table.columns[name] is Form.TEXT else name for name in table.order)
    return f"SELECT {columns} FROM {source} WHERE {condition} ORDER BY {order}"  # noqa: S608 - names from digits only


def _in_postgres(name: str, form: Form) -> str:
    if form is Form.INSTANT:
        return f"""to_char({name} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS {name}"""
    return f"{name}::text AS {name}" if form is Form.TRUTH else name


def canonical_in_duckdb(table: Table) -> str:
    """Return the query (one parameter: the file) whose COPY as CSV gives the canonical rows of a Parquet file.

    The file's own order is kept: that it is the right one is part of what the digest proves.
    """
    columns = ", ".join(
        f"strftime({name}::TIMESTAMP, '%Y-%m-%dT%H:%M:%S.%fZ') AS {name}" if form is Form.INSTANT else name
        for name, form in table.columns.items()
    )
    return f"SELECT {columns} FROM read_parquet(?)"  # noqa: S608 - our own column names


async def check_day(connection: Any, xx: int, day: date) -> None:
    """Raise Refused unless Postgres has all tables of the date for database `xx`, with the columns known here.

    Codes: `day_not_here`, `archive_schema_unknown`.
    """
    cold = names.cold(xx, day)
    for table in TABLES:
        source = names.day_table(table.kind, day)
        leaves = {row["leaf"] for row in await connection.fetch(_LEAVES, source, [names.database(xx), cold])}
        wanted = {names.leaf(table.kind, slot, day).partition(".")[2] for slot in slots_of(xx)}
        if not leaves >= wanted:
            raise Refused(
                "day_not_here",
                f"{source} has not all tables of db_{xx:02d} here; look at `hongbao rotate status` for where they are",
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
