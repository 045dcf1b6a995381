"""Restore: a date and database put back beside the hot one, for an investigation, and taken away again.

It stands in a schema of its own, `restored_07_20261121`, with `envelope`, `claim` and `guest` as plain tables: never
a part of the hot ones, without their triggers (nothing is paid again), and to be read only. Nothing of the system
looks there.
"""

from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from archive import place
from archive.export import Progress, alone
from archive.manifest import Manifest
from archive.tables import TABLES
from archive.verify import load, scratch, trusted
from envelope.errors import Refused
from schema import names
from sharding.slots import database_name

READERS = "hongbao_setnode, hongbao_audit"


@dataclass(frozen=True)
class Restored:
    """Where a date stands now, and what it was made from."""

    schema: str
    manifest: Manifest


def schema_of(xx: int, day: date) -> str:
    """Name the schema of a restored date: `restored_07_20261121`."""
    return f"restored_{names.database(xx).removeprefix('db_')}_{day:%Y%m%d}"


async def restore(
    connection: Any, folder: Path, key: bytes, *, xx: int, day: date, progress: Progress = lambda *_: None
) -> Restored:
    """Put the archive of database `xx` and date `day` into its schema of this SET; it is there whole or not at all.

    `connection` is the owner's, outside a transaction. Raises Refused `already_restored`, `archive_busy`, and what
    `verify.reread` raises for an archive that is not to be believed; Unavailable.
    """
    schema = schema_of(xx, day)
    async with alone(connection, xx=xx, day=day):
        if await _stands(connection, schema):
            raise Refused("already_restored", f"{schema} stands already; read it, or remove it first")
        found = await trusted(folder, key, xx=xx, day=day)
        async with scratch(connection, f"restoring_{xx:02d}_{day:%Y%m%d}") as aside:
            await load(connection, aside, place.folder_of(folder, xx=xx, day=day), found, progress)
            async with connection.transaction():
                for table in TABLES:
                    key_columns = ", ".join(table.order)
                    await connection.execute(f"ALTER TABLE {aside}.{table.kind.value} ADD PRIMARY KEY ({key_columns})")
                await connection.execute(f"GRANT USAGE ON SCHEMA {aside} TO {READERS}")
                await connection.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {aside} TO {READERS}")
                said = f"{database_name(xx)} of {day}, restored from the archive {found.digest}"
                await connection.execute(f"COMMENT ON SCHEMA {aside} IS '{said}'")
                await connection.execute(f"ALTER SCHEMA {aside} RENAME TO {schema}")
        return Restored(schema, found)


async def remove(connection: Any, *, xx: int, day: date) -> str:
    """Take a restored date away again; returns its schema. Raises Refused `not_restored`, `archive_busy`."""
    schema = schema_of(xx, day)
    async with alone(connection, xx=xx, day=day):
        if not await _stands(connection, schema):
            raise Refused("not_restored", f"there is no {schema}; nothing was removed")
        await connection.execute(f"DROP SCHEMA {schema} CASCADE")
    return schema


async def _stands(connection: Any, schema: str) -> bool:
    return bool(await connection.fetchval("SELECT to_regnamespace($1) IS NOT NULL", schema))
