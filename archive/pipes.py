"""Rows between Postgres and Parquet: a pipe with asyncpg's COPY at one end and DuckDB in a thread at the other.

Canonical rows (`archive.tables`) pass through and are hashed on the way, so the digest is that of the rows written.
Memory holds only the buffers of the pipe and its two ends. If one end fails, the other gets an error or end of file
from the pipe; an end is closed once no thread uses it.
"""

import asyncio
import fcntl
import hashlib
import os
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archive import engine
from archive.limits import CHUNK_BYTES, LEAVE_S
from archive.place import not_written
from archive.tables import Table, canonical_in_duckdb
from archive.threads import run_blocking_in, shielded
from errors import Refused
from runtime.postgres import Connection

if TYPE_CHECKING:
    import duckdb

Count = Callable[[int], None]
"""Called with the number of bytes of canonical rows since the last call."""

_NOT_OUR_ROWS = ("22", "23")
"""Classes of SQLSTATE for values that the tables cannot hold."""
_CSV = "header = false, auto_detect = false, delim = ',', quote = '\"', escape = '\"', nullstr = '', new_line = '\\n'"


async def to_parquet(
    connection: Connection, query: str, table: Table, duck: "duckdb.DuckDBPyConnection", path: Path, on_bytes: Count
) -> str:
    """Write the canonical rows that `query` gives to a Parquet file; returns their SHA-256.

    Raises Refused `archive_not_written` if the disk refuses them.
    """
    loop, digest = asyncio.get_running_loop(), hashlib.sha256()
    out, into = _pipe()
    wanted, late = True, list[asyncio.TimerHandle]()

    def give_up() -> None:
        nonlocal wanted
        wanted = False

    def leave() -> None:
        give_up()
        late.append(loop.call_later(LEAVE_S, connection.terminate))

    with ThreadPoolExecutor(2, "archive") as pool:
        job = loop.run_in_executor(pool, _write_parquet, duck, table, out, path)

        async def take(chunk: bytes) -> None:
            if not wanted:
                return
            try:
                await loop.run_in_executor(pool, _push, into, digest, chunk)
            except BrokenPipeError:
                give_up()  # the writing job failed; its error is raised below
            on_bytes(len(chunk))

        try:
            # asyncpg cancels a COPY whose output raises, and then waits for ever if Postgres has sent all of it
            # already. So the rest of the COPY (of one table of one database) is read and discarded; if that takes
            # longer than LEAVE_S after a cancellation, the connection is terminated.
            await shielded(
                connection.copy_from_query(query, output=take, format="csv", force_quote=table.texts), hurry=leave
            )
        finally:
            for timer in late:
                timer.cancel()
            os.close(into)
            await shielded(asyncio.wait({job}))
        try:
            job.result()
        except Exception as error:
            if isinstance(error, OSError) or engine.fault_of(error):
                raise not_written(path, error) from error
            raise
    return digest.hexdigest()


async def from_parquet(
    connection: Connection,
    path: object,
    table: Table,
    duck: "duckdb.DuckDBPyConnection",
    target: tuple[str, str],
    on_bytes: Count,
) -> str:
    """Copy a Parquet file into the table `target` (schema, name); returns the SHA-256 of its canonical rows.

    Raises Refused `archive_corrupt` if the file cannot be read; the caller drops the rows copied by then.
    """
    loop, digest = asyncio.get_running_loop(), hashlib.sha256()
    out, into = _pipe()
    with ThreadPoolExecutor(2, "archive") as pool:
        job = loop.run_in_executor(pool, _read_parquet, duck, table, into, path)

        async def rows() -> AsyncIterator[bytes]:
            while chunk := await run_blocking_in(pool, _pull, out, digest):
                on_bytes(len(chunk))
                yield chunk

        schema, name = target
        try:
            try:
                await connection.copy_to_table(
                    name, schema_name=schema, columns=list(table.columns), source=rows(), format="csv"
                )
            finally:
                os.close(out)
                await shielded(asyncio.wait({job}))
        except Exception as error:
            if str(getattr(error, "sqlstate", "")).startswith(_NOT_OUR_ROWS):
                raise Refused("archive_corrupt", f"Postgres does not take what {path} holds: {error}") from error
            raise
        with engine.reading(path):
            job.result()
    return digest.hexdigest()


async def digest_of(path: object, table: Table, duck: "duckdb.DuckDBPyConnection", on_bytes: Count) -> str:
    """Return the SHA-256 of a Parquet file's canonical rows; raises Refused `archive_corrupt`."""
    loop, digest = asyncio.get_running_loop(), hashlib.sha256()
    out, into = _pipe()
    with ThreadPoolExecutor(2, "archive") as pool:
        job = loop.run_in_executor(pool, _read_parquet, duck, table, into, path)
        try:
            while chunk := await run_blocking_in(pool, _pull, out, digest):
                on_bytes(len(chunk))
        finally:
            os.close(out)
            await shielded(asyncio.wait({job}))
        with engine.reading(path):
            job.result()
    return digest.hexdigest()


def _write_parquet(duck: "duckdb.DuckDBPyConnection", table: Table, out: int, path: Path) -> None:
    columns = ", ".join(f"'{name}': '{form.value}'" for name, form in table.columns.items())
    source = f"read_csv('/dev/fd/{out}', {_CSV}, allow_quoted_nulls = false, parallel = false, columns = {{{columns}}})"
    options = f"FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {table.row_group}, USE_TMP_FILE false"
    try:
        duck.execute(f"COPY (SELECT * FROM {source}) TO {engine.quoted(path)} ({options})")  # noqa: S608 - our names
    finally:
        os.close(out)


def _read_parquet(duck: "duckdb.DuckDBPyConnection", table: Table, into: int, path: object) -> None:
    query = canonical_in_duckdb(table).replace("?", engine.quoted(path))
    quote = ", ".join(table.texts)
    options = f"FORMAT csv, HEADER false, NULLSTR '', FORCE_QUOTE ({quote}), USE_TMP_FILE false"
    try:
        duck.execute(f"COPY ({query}) TO '/dev/fd/{into}' ({options})")
    finally:
        os.close(into)


def _pipe() -> tuple[int, int]:
    out, into = os.pipe()
    fcntl.fcntl(into, fcntl.F_SETPIPE_SZ, CHUNK_BYTES)
    return out, into


def _push(into: int, digest: Any, chunk: bytes) -> None:
    digest.update(chunk)
    rest = memoryview(chunk)
    while rest:
        rest = rest[os.write(into, rest) :]


def _pull(out: int, digest: Any) -> bytes:
    chunk = os.read(out, CHUNK_BYTES)
    digest.update(chunk)
    return chunk
