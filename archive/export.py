"""Export: one snapshot of a date and database, from Postgres to Parquet, with its signed manifest.

Memory is bounded whatever the number of rows. After a kill or a full disk there is no archive, or the old one. In
Postgres it only reads, in one repeatable-read transaction, and takes no lock that conflicts with writes; then it adds a
line to the operation log, before the archive is published.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import date
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archive import engine, pipes, place, store
from archive.kept_in import SPOILT
from archive.known import announce, known_of
from archive.manifest import File, Manifest, check_key, plain
from archive.place import Archive, Root
from archive.register import NAMED
from archive.tables import TABLES, Table, canonical_in_postgres, check_day, in_parquet, of_database
from archive.threads import run_blocking
from errors import InvariantBroken, Refused, Unavailable
from runtime import postgres
from runtime.postgres import Connection
from schema import names
from schema.names import TableKind
from sharding.slots import database_name

if TYPE_CHECKING:
    import duckdb

Progress = Callable[[str, int], None]
"""Called with the table ("claim") and the number of bytes of canonical rows since the last call."""


async def export_database(
    connection: Connection,
    folder: Root,
    key: bytes,
    *,
    xx: int,
    day: date,
    proof: Mapping[str, Any] | None,
    progress: Progress = lambda *_: None,
) -> Manifest:
    """Write the archive of database `xx` and business date `day` under `folder`; durable when this returns.

    `connection` is the owner's, outside a transaction; `proof` is the rotation's (JSON), for the manifest. Idempotent:
    a sound archive that the register names is kept and its manifest returned; any other that is ours is replaced, if
    the tables still hold the rows that were exported then. Raises Refused `day_not_here`, `archive_schema_unknown`,
    `archive_not_written`, `archive_key_weak`, `archive_busy`, `archive_differs` (the rows are others than those that
    were exported; nothing is published), `archive_of_another` (one stands there that was never named here; nothing is
    published); Unavailable if Postgres is lost; InvariantBroken if the rows written are not those of the snapshot. Of
    an object store also as `archive.bucket.publication.publish`.
    """
    check_key(key)
    async with archive_lock(connection, xx=xx, day=day):
        await check_day(connection, xx, day)
        archive = Archive(folder, key)
        standing = await _existing(connection, archive, xx=xx, day=day)
        if standing is not None:
            return standing
        with store.staging(folder, xx=xx, day=day) as new:
            manifest = await _write(connection, new, xx=xx, day=day, proof=plain(proof), progress=progress)
            await _check_same(connection, archive, manifest)
            known = await known_of(connection, xx=xx, day=day)
            await run_blocking(store.check_place, manifest, archive, known)
            await announce(connection, xx=xx, day=day, digest=manifest.digest)
            await run_blocking(store.publish, new, manifest, archive, known)
            return manifest


@asynccontextmanager
async def archive_lock(connection: Connection, *, xx: int, day: date) -> AsyncIterator[None]:
    """Hold the lock of one archive for the block; raises Refused `archive_busy` if another session has it."""
    if connection.is_in_transaction():
        raise InvariantBroken("archive_outside_transaction", "an archive is written and verified outside a transaction")
    name = f"hongbao_archive_{xx:02d}_{day:%Y%m%d}"
    try:
        if not await connection.fetchval("SELECT pg_try_advisory_lock(hashtext($1))", name):
            name = database_name(xx)
            raise Refused("archive_busy", f"another process works on the archive of {name} and {day}; try again")
        try:
            yield
        finally:
            if not connection.is_closed():
                await connection.fetchval("SELECT pg_advisory_unlock(hashtext($1))", name)
    except Exception as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            # The error comes from the connection that the cancellation closed.
            raise asyncio.CancelledError from error
        if postgres.is_lost(error) and not isinstance(error, Unavailable):
            raise Unavailable("database_unavailable", f"Postgres was lost: {error}") from error
        raise


async def _existing(connection: Connection, archive: Archive, *, xx: int, day: date) -> Manifest | None:
    """Return the manifest of the archive that the register names, if that archive is sound."""
    named = await connection.fetchval(NAMED, day, xx)
    if named is None:
        return None
    try:
        return (await run_blocking(store.verified, archive, xx=xx, day=day, digest=named)).manifest
    except Refused as refused:
        if refused.code not in SPOILT:
            raise
        return None  # lost or corrupt, but the tables are still here: export again


async def _check_same(connection: Connection, archive: Archive, new: Manifest) -> None:
    """Raise Refused `archive_differs` if the register names an archive of this day that held other rows.

    A spoilt archive is cured from tables that nobody has proven since. The same rows and proof give the same manifest,
    to the byte, so the register's digest tells, whatever is left of the old archive. Another version of the tables or
    of DuckDB writes another manifest: then the old one, if it is whole, has the digest of each table's rows.
    """
    named = await connection.fetchval(NAMED, new.day, new.xx)
    if named in (None, new.digest):
        return
    where = store.place_of(archive.folder, xx=new.xx, day=new.day)
    what = "its manifest is gone, too, so the rows cannot be compared with it"
    try:
        old = (await run_blocking(store.opened, archive, xx=new.xx, day=new.day, digest=named)).manifest
    except Refused as refused:
        if refused.code not in SPOILT:
            raise
        old = None
    if old is not None:
        changed = [table.kind.value for table in TABLES if _rows(old, table) != _rows(new, table)]
        if not changed:
            return
        what = f"rows of {', '.join(changed)} are not those that were exported"
    text = (
        f"{database_name(new.xx)} of {new.day}: {what}; nothing was written. Find out who wrote, or bring {where} back "
        "from a copy"
    )
    raise Refused("archive_differs", text)


def _rows(manifest: Manifest, table: Table) -> str:
    return manifest.files[table.file].rows_sha256


async def _write(
    connection: Connection, new: Path, *, xx: int, day: date, proof: dict[str, Any] | None, progress: Progress
) -> Manifest:
    duck = await run_blocking(engine.connect, spill=new / place.SPILL)
    try:
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            version = await connection.fetchval("SELECT max(name) FROM migration")
            sums = await connection.fetchrow(_sums(xx, day))
            files = {}
            for table in TABLES:
                path = new / table.file
                query = canonical_in_postgres(table, names.day_table(table.kind, day), of_database(xx))
                rows = await pipes.to_parquet(connection, query, table, duck, path, partial(progress, table.kind.value))
                files[table.file] = await run_blocking(_described, duck, table, path, rows, sums)
        return Manifest(day=day, xx=xx, schema_version=version, files=files, proof=proof, **dict(sums))
    finally:
        duck.close()


def _described(duck: "duckdb.DuckDBPyConnection", table: Table, path: Path, rows_sha256: str, sums: Any) -> File:
    """Return the manifest's entry for a file just written; raises InvariantBroken if its rows are not all there."""
    ((rows,),) = engine.fetch(duck, f"SELECT count(*) FROM {in_parquet()}", str(path))  # noqa: S608 - ours
    counted = sums[_COUNTS[table.kind]]
    if rows != counted:
        raise InvariantBroken("archive_is_whole", f"{path.name} has {rows} rows, Postgres {counted} in that snapshot")
    return File(rows=rows, size=path.stat().st_size, sha256=place.sha256_of(path), rows_sha256=rows_sha256)


_COUNTS = {TableKind.ENVELOPE: "envelopes", TableKind.CLAIM: "claims", TableKind.GUEST: "guests"}


def _sums(xx: int, day: date) -> str:
    envelope, claim, guest = (
        names.day_table(kind, day) for kind in (TableKind.ENVELOPE, TableKind.CLAIM, TableKind.GUEST)
    )
    ours = of_database(xx)
    return f"""
    SELECT * FROM (
        SELECT count(*) AS envelopes, coalesce(sum(total_fen), 0)::bigint AS paid_in_fen,
            min(envelope_id) AS first_id, max(envelope_id) AS last_id
        FROM {envelope} WHERE {ours}
    ) e CROSS JOIN (
        SELECT count(*) AS claims, coalesce(sum(amount_fen) FILTER (WHERE kind = 'open'), 0)::bigint AS claimed_fen,
            coalesce(sum(amount_fen) FILTER (WHERE kind <> 'open'), 0)::bigint AS refunded_fen
        FROM {claim} WHERE {ours}
    ) c CROSS JOIN (SELECT count(*) AS guests FROM {guest} WHERE {ours}) g
    """  # noqa: S608 - names from digits only
