"""All rows of an archive in order, in bounded memory, as the audit reads them. DuckDB works in a thread."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archive import engine
from archive.details import in_ms
from archive.tables import FILES
from archive.threads import whole
from schema.names import Kind

if TYPE_CHECKING:
    import duckdb

ROWS = 2_000
"""Fetched at a time."""

_HEADERS = f"""
SELECT envelope_id, sender, kind, split, split_version, total_fen, shares, greeting, seed, create_key, password_mac,
    {in_ms("created_at")} AS created_at_ms, {in_ms("opens_at")} AS opens_at_ms,
    {in_ms("expires_at")} AS expires_at_ms, false AS due
FROM read_parquet(?)
"""  # noqa: S608 - our own column names
_CLAIMS = f"""
SELECT envelope_id, seq, kind, user_id, amount_fen, shares, {in_ms("claimed_at")} AS at_ms FROM read_parquet(?)
"""  # noqa: S608 - our own column names


def headers(duck: "duckdb.DuckDBPyConnection", where: Path) -> AsyncIterator[dict[str, Any]]:
    """Give the headers of the archive in `where`, in order of ID, instants as `*_at_ms`.

    The order is the file's own: believe the archive first (`place.believed`). Raises Refused `archive_corrupt`.
    """
    return _rows(duck, _HEADERS, where / FILES[Kind.ENVELOPE])


def claims(duck: "duckdb.DuckDBPyConnection", where: Path) -> AsyncIterator[dict[str, Any]]:
    """Give the claims, in order of ID and seq; else as `headers`."""
    return _rows(duck, _CLAIMS, where / FILES[Kind.CLAIM])


async def _rows(duck: "duckdb.DuckDBPyConnection", query: str, path: Path) -> AsyncIterator[dict[str, Any]]:
    cursor = duck.cursor()
    try:
        with engine.reading(path):
            await whole(cursor.execute, query, [str(path)])
            names = [column[0] for column in cursor.description or ()]
            while rows := await whole(cursor.fetchmany, ROWS):
                for row in rows:
                    yield dict(zip(names, row, strict=True))
    finally:
        cursor.close()
