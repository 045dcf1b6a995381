"""Verification: the files are copied to a scratch schema of Postgres and compared with the cold tables.

Postgres compares the rows themselves, both ways, not digests of them. The scratch schema has no trigger and no index
and is dropped afterwards; after a kill the next run drops it.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import Literal

from archive import engine, pipes, store
from archive.export import Progress, archive_lock
from archive.kept_in import Opened
from archive.limits import THREADS_IN_ORDER, WORK_MEM
from archive.manifest import Manifest
from archive.place import Archive, Root
from archive.register import NAMED
from archive.tables import TABLES, Table, check_day, of_database, tables_of
from archive.threads import run_blocking
from errors import Refused
from runtime.postgres import Connection
from schema import names


@dataclass(frozen=True)
class Verified:
    """An archive that was read without a difference: its manifest, and the number of rows read."""

    manifest: Manifest
    rows: int


async def verify_database(
    connection: Connection, folder: Root, key: bytes, *, xx: int, day: date, progress: Progress = lambda *_: None
) -> Verified:
    """Compare the archive of database `xx` and date `day` with the tables in Postgres, both ways.

    `connection` is the owner's, outside a transaction. The archive and the tables are only read.
    Raises Refused `archive_missing`, `archive_forged` (not signed by this key, or not the manifest that the register
    names), `archive_corrupt` (a file or its rows are not those of the manifest), `archive_differs` (they are, but
    Postgres has others), `day_not_here`, `archive_busy`; Unavailable.
    """
    async with archive_lock(connection, xx=xx, day=day):
        await check_day(connection, xx, day)
        named = await connection.fetchval(NAMED, day, xx)
        found = await verified_archive(Archive(folder, key), xx=xx, day=day, digest=named)
        async with scratch(connection, f"check_{xx:02d}_{day:%Y%m%d}") as schema:
            await load(connection, schema, found, progress, how="UNLOGGED")
            for table in TABLES:
                await _compare(connection, table, schema, xx, day)
        return _counted(found)


async def verified_archive(archive: Archive, *, xx: int, day: date, digest: str | None = None) -> Opened:
    """Verify signature, digest and file hashes, return the archive; raises Refused as `verify_database`."""
    return await run_blocking(store.verified, archive, xx=xx, day=day, digest=digest)


def _counted(found: Opened) -> Verified:
    return Verified(found.manifest, sum(file.rows for file in found.manifest.files.values()))


@asynccontextmanager
async def scratch(connection: Connection, schema: str) -> AsyncIterator[str]:
    """Create the schema for the block (dropping a leftover) and drop it at the end. `schema` is built from digits."""
    await connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
    await connection.execute(f"CREATE SCHEMA {schema}")
    try:
        yield schema
    finally:
        if not connection.is_closed():
            await connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")


async def reread(
    folder: Root, key: bytes, *, xx: int, day: date, digest: str | None = None, progress: Progress = lambda *_: None
) -> Verified:
    """Verify an archive without Postgres: signature, file hashes, and the digest of each table's rows, recomputed.

    `digest` is the one that the register names, None if no register can be read. Raises Refused as `verify_database`.
    """
    found = await verified_archive(Archive(folder, key), xx=xx, day=day, digest=digest)
    duck = await run_blocking(engine.connect, threads=THREADS_IN_ORDER, reads=found.where)
    try:
        for table in tables_of(found.manifest.format):
            path = found.where / table.file
            rows_sha256 = await pipes.digest_of(path, table, duck, partial(progress, table.kind.value))
            _same_rows(path, table, found.manifest, rows_sha256)
    finally:
        duck.close()
    return _counted(found)


async def load(
    connection: Connection,
    schema: str,
    found: Opened,
    progress: Progress,
    *,
    how: Literal["", "UNLOGGED"] = "",
) -> None:
    """Copy the files into new tables `envelope`, `claim`, `guest` of the schema, without indexes.

    Raises Refused `archive_corrupt` if the rows are not those that were exported.
    """
    manifest, where = found
    duck = await run_blocking(engine.connect, threads=THREADS_IN_ORDER, reads=where)
    try:
        for table in tables_of(manifest.format):
            name = table.kind.value
            await connection.execute(f"CREATE {how} TABLE {schema}.{name} (LIKE public.{name})")
            rows_sha256 = await pipes.from_parquet(
                connection,
                where / table.file,
                table,
                duck,
                (schema, name),
                partial(progress, name),
            )
            _same_rows(where / table.file, table, manifest, rows_sha256)
    finally:
        duck.close()


def _same_rows(path: object, table: Table, found: Manifest, rows_sha256: str) -> None:
    if rows_sha256 != found.files[table.file].rows_sha256:
        raise Refused("archive_corrupt", f"the rows of {path} are not those that were exported")


async def _compare(connection: Connection, table: Table, schema: str, xx: int, day: date) -> None:
    """Raise Refused `archive_differs` at the first row that is on one side only, or differs.

    A full join by the key, which is cheaper than EXCEPT ALL both ways. The key is unique in Postgres: if every row has
    its partner, none differs, and both sides have as many rows, they are equal.
    """
    key, rest = ", ".join(table.order), [name for name in table.columns if name not in table.order]
    one, other = (", ".join(f"{side}.{name}" for name in rest) for side in ("archived", "standing"))
    query = f"""
    SELECT {key}, archived.slot IS NULL AS lost, standing.slot IS NULL AS added
    FROM {schema}.{table.kind.value} AS archived
    FULL JOIN (SELECT * FROM {names.day_table(table.kind, day)} WHERE {of_database(xx)}) AS standing USING ({key})
    WHERE archived.slot IS NULL OR standing.slot IS NULL OR ({one}) IS DISTINCT FROM ({other}) LIMIT 1
    """  # noqa: S608 - names from digits and our own columns
    async with connection.transaction():
        await connection.execute(f"SET LOCAL work_mem = '{WORK_MEM}'")
        row = await connection.fetchrow(query)
        counts = await connection.fetchrow(
            f"SELECT (SELECT count(*) FROM {schema}.{table.kind.value}) AS archived, "  # noqa: S608 - as above
            f"(SELECT count(*) FROM {names.day_table(table.kind, day)} WHERE {of_database(xx)}) AS standing"
        )
    if row is not None:
        what = "is not in the archive" if row["lost"] else "is not in Postgres" if row["added"] else "differs"
        raise _differs(f"a row of {table.kind.value} of envelope {row['envelope_id']} {what}")
    if counts["archived"] != counts["standing"]:
        raise _differs(
            f"{table.kind.value} has {counts['archived']} rows in the archive, {counts['standing']} in Postgres"
        )


def _differs(what: str) -> Refused:
    return Refused("archive_differs", f"{what}; nothing was changed: find out who wrote, then export again")
