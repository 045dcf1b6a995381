"""Restore: an archived date and database as tables of a SET again, for an investigation, and their removal.

The tables `envelope`, `claim` and `guest` stand in a schema of their own, `restored_07_20261121`: never attached to the
hot tables, without their triggers, readable only. No part of the system reads them, so nothing is opened or paid again.
"""

from dataclasses import dataclass
from datetime import date

from archive.export import Progress, archive_lock
from archive.manifest import Manifest
from archive.place import Archive, Root
from archive.tables import TABLES
from archive.verify import load, scratch, verified_archive
from errors import Refused
from runtime.postgres import Connection
from schema import names
from sharding.slots import database_name

READERS = "hongbao_setnode, hongbao_audit"


@dataclass(frozen=True)
class Restored:
    """The schema of a restored date, and the manifest it was restored from."""

    schema: str
    manifest: Manifest


def schema_of(xx: int, day: date) -> str:
    """Name the schema of a restored date: `restored_07_20261121`."""
    return f"restored_{names.database(xx).removeprefix('db_')}_{day:%Y%m%d}"


async def restore(
    connection: Connection, folder: Root, key: bytes, *, xx: int, day: date, progress: Progress = lambda *_: None
) -> Restored:
    """Restore the archive of database `xx` and date `day` to its schema in this SET: all of it, or nothing.

    `connection` is the owner's, outside a transaction. Raises Refused `already_restored`, `archive_busy`, and what
    `verify.reread` raises for an archive that is not sound; Unavailable.
    """
    schema = schema_of(xx, day)
    async with archive_lock(connection, xx=xx, day=day):
        if await _stands(connection, schema):
            raise Refused("already_restored", f"{schema} stands already; read it, or remove it first")
        found = await verified_archive(Archive(folder, key), xx=xx, day=day)
        async with scratch(connection, _half_of(xx, day)) as scratch_schema:
            await load(connection, scratch_schema, found, progress)
            async with connection.transaction():
                for table in TABLES:
                    key_columns = ", ".join(table.order)
                    await connection.execute(
                        f"ALTER TABLE {scratch_schema}.{table.kind.value} ADD PRIMARY KEY ({key_columns})"
                    )
                await connection.execute(f"GRANT USAGE ON SCHEMA {scratch_schema} TO {READERS}")
                await connection.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {scratch_schema} TO {READERS}")
                said = f"{database_name(xx)} of {day}, restored from the archive {found.manifest.digest}"
                await connection.execute(f"COMMENT ON SCHEMA {scratch_schema} IS '{said}'")
                await connection.execute(f"ALTER SCHEMA {scratch_schema} RENAME TO {schema}")
        return Restored(schema, found.manifest)


async def remove(connection: Connection, *, xx: int, day: date) -> str:
    """Drop a restored date, and what a killed restore has left of it; returns the schema, of which of them there was.

    Raises Refused `not_restored`, `archive_busy`.
    """
    schemas = [schema_of(xx, day), _half_of(xx, day)]
    async with archive_lock(connection, xx=xx, day=day):
        standing = [one for one in schemas if await _stands(connection, one)]
        if not standing:
            raise Refused("not_restored", f"there is no {schemas[0]}; nothing was removed")
        for one in standing:
            await connection.execute(f"DROP SCHEMA {one} CASCADE")
    return standing[0]


def _half_of(xx: int, day: date) -> str:
    """Name the schema of a restore that is under way, or was killed."""
    return f"restoring_{xx:02d}_{day:%Y%m%d}"


async def _stands(connection: Connection, schema: str) -> bool:
    return bool(await connection.fetchval("SELECT to_regnamespace($1) IS NOT NULL", schema))
