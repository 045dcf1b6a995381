"""All rows of an archive in order, in bounded memory, for the audit. DuckDB works in a thread."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from archive import engine
from archive.details import in_ms
from archive.kept_in import Where
from archive.limits import ROWS_PER_FETCH
from archive.tables import FILES, TABLES, in_parquet, parquet_rows
from archive.threads import run_blocking
from schema.names import TableKind

if TYPE_CHECKING:
    import duckdb


HEADERS = f"""
SELECT envelope_id, sender, kind, split, split_version, total_fen, shares, greeting, seed, create_key, password_mac,
    min_fen, max_fen, header_seal, named, slot,
    {in_ms("created_at")} AS created_at_ms, {in_ms("opens_at")} AS opens_at_ms,
    {in_ms("expires_at")} AS expires_at_ms, false AS due
FROM {parquet_rows(TABLES[0], "?")}
"""  # noqa: S608 - our own column names
_CLAIMS = f"""
SELECT envelope_id, seq, kind, user_id, amount_fen, shares, slot, {in_ms("claimed_at")} AS at_ms FROM {in_parquet()}
"""  # noqa: S608 - our own column names
_RECEIVERS = f"SELECT envelope_id, user_id FROM {in_parquet()} WHERE invited AND slot = envelope_id % 1000"  # noqa: S608 - ours


def headers(duck: "duckdb.DuckDBPyConnection", where: Where) -> AsyncIterator[dict[str, Any]]:
    """Yield the headers of the archive in `where`, in order of ID, instants as `*_at_ms`.

    The order is the file's own: verify the archive first (`store.verified`). Raises Refused `archive_corrupt`.
    """
    return _rows(duck, HEADERS, where / FILES[TableKind.ENVELOPE])


def claims(duck: "duckdb.DuckDBPyConnection", where: Where) -> AsyncIterator[dict[str, Any]]:
    """Yield the claims, in order of ID and seq; else as `headers`."""
    return _rows(duck, _CLAIMS, where / FILES[TableKind.CLAIM])


def receivers(duck: "duckdb.DuckDBPyConnection", where: Where) -> AsyncIterator[dict[str, Any]]:
    """Yield the named receivers, in order of ID; else as `headers`."""
    return _rows(duck, _RECEIVERS, where / FILES[TableKind.GUEST])


async def _rows(duck: "duckdb.DuckDBPyConnection", query: str, path: object) -> AsyncIterator[dict[str, Any]]:
    cursor = duck.cursor()
    try:
        with engine.reading(path):
            await run_blocking(cursor.execute, query, [str(path)])
            names = [column[0] for column in cursor.description or ()]
            while rows := await run_blocking(cursor.fetchmany, ROWS_PER_FETCH):
                for row in rows:
                    yield dict(zip(names, row, strict=True))
    finally:
        cursor.close()
