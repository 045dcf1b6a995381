"""Writes an archive anew without a user's name, under a new manifest: nothing but names, greetings and seals differs.

The new files are written beside the old ones and compared with them. They take their place, and the register names
them, in one step of the caller's (`users.archived`); until then the old archive stands as it was.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from archive import engine, pipes, place
from archive.kept_in import Opened
from archive.manifest import File, Manifest
from archive.tables import Table, in_parquet, tables_of
from archive.threads import run_blocking
from errors import InvariantBroken
from schema.names import TableKind

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True)
class Renaming:
    """Which rows change. `seals`: of each header that changes the seal afterwards; `sent`: those with another sender.

    `won`: envelopes in which the user's claim is renamed. Guests are renamed wherever they have the name.
    """

    before: str
    after: str
    seals: Mapping[int, str | None]
    sent: frozenset[int]
    won: frozenset[int]


async def write_renamed(archive: Opened, new: Path, renaming: Renaming) -> Manifest:
    """Write the files of an archive, verified, to the folder `new`; returns the new manifest.

    Raises Refused `archive_not_written`, `archive_corrupt`; InvariantBroken(`only_names_change`) if anything but names,
    greetings and seals, or another number of names than were asked for, came out differently.
    """
    found, where = archive
    duck = await run_blocking(engine.connect, spill=new / place.SPILL, reads=where)
    try:
        await run_blocking(_remember, duck, renaming)
        files = {}
        for table in tables_of(found.format):
            source, target = where / table.file, new / table.file
            await run_blocking(_copy, duck, table, source, target, renaming)
            with engine.reading(source):
                rows = await run_blocking(_compare, duck, table, source, target, renaming)
            rows_sha256 = await pipes.digest_of(target, table, duck, lambda _: None)
            sha256 = await run_blocking(place.sha256_of, target)
            files[table.file] = File(rows=rows, size=target.stat().st_size, sha256=sha256, rows_sha256=rows_sha256)
            if rows != found.files[table.file].rows:
                raise _broken(f"{target.name} has {rows} rows, {found.files[table.file].rows} were archived")
        return msgspec.structs.replace(found, files=files)
    finally:
        duck.close()


def _remember(duck: "duckdb.DuckDBPyConnection", renaming: Renaming) -> None:
    ids = list(renaming.seals)
    duck.execute(
        "CREATE TABLE header AS SELECT unnest(?::BIGINT[]) AS id, unnest(?::BOOLEAN[]) AS sent, "
        "unnest(?::VARCHAR[]) AS seal",
        [ids, [one in renaming.sent for one in ids], [renaming.seals[one] for one in ids]],
    )
    duck.execute("CREATE TABLE won AS SELECT unnest(?::BIGINT[]) AS id", [list(renaming.won)])


def _copy(duck: "duckdb.DuckDBPyConnection", table: Table, source: object, target: Path, renaming: Renaming) -> None:
    before, after = engine.quoted(renaming.before), engine.quoted(renaming.after)
    changed = {
        TableKind.ENVELOPE: {
            "sender": f"CASE WHEN h.sent THEN {after} ELSE r.sender END",
            "greeting": "CASE WHEN h.sent THEN '' ELSE r.greeting END",
            "header_seal": "CASE WHEN h.id IS NULL THEN r.header_seal ELSE h.seal END",
        },
        TableKind.CLAIM: {
            "user_id": f"CASE WHEN r.user_id = {before} AND w.id IS NOT NULL THEN {after} ELSE r.user_id END"
        },
        TableKind.GUEST: {"user_id": f"CASE WHEN r.user_id = {before} THEN {after} ELSE r.user_id END"},
    }[table.kind]
    columns = ", ".join(f"{changed.get(name, f'r.{name}')} AS {name}" for name in table.columns)
    query = f"SELECT {columns} FROM {_joined(source)} ORDER BY {', '.join(table.order)}"  # noqa: S608 - our own names
    options = f"FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {table.row_group}, USE_TMP_FILE false"
    try:
        duck.execute(f"COPY ({query}) TO {engine.quoted(target)} ({options})")
    except Exception as error:
        if (fault := engine.read_fault(source)) is not None:
            raise fault from error
        if isinstance(error, OSError) or engine.fault_of(error):
            raise place.not_written(target, error) from error
        raise


def _compare(duck: "duckdb.DuckDBPyConnection", table: Table, source: object, target: Path, renaming: Renaming) -> int:
    """Return how many rows there are; raises InvariantBroken if more than names has changed, or not the names asked.

    Sums of the rows' hashes, what may change left out, are the same on both sides: in any order, and in no memory.
    """
    names = "sender" if table.kind is TableKind.ENVELOPE else "user_id"
    before, after = engine.quoted(renaming.before), engine.quoted(renaming.after)
    hidden = {
        "sender": "CASE WHEN h.sent THEN NULL ELSE r.sender END",
        "greeting": "CASE WHEN h.sent THEN NULL ELSE r.greeting END",
        "header_seal": "CASE WHEN h.id IS NULL THEN r.header_seal END",
        "user_id": f"CASE WHEN r.user_id <> {after} THEN r.user_id ELSE {before} END",
    }
    columns = ", ".join(hidden.get(name, f"r.{name}") for name in table.columns)

    def summed(path: object) -> tuple[int, Any, int, int]:
        query = (
            f"SELECT count(*), sum(hash({columns})), count(*) FILTER (WHERE r.{names} = ?), "  # noqa: S608 - our names
            f"count(*) FILTER (WHERE r.{names} = ?) FROM {_joined(path)}"
        )
        ((rows, digest, old, new),) = engine.fetch(duck, query, renaming.before, renaming.after)
        return rows, digest, old, new

    rows_before, digest_before, old_before, new_before = summed(source)
    rows, digest, old, new = summed(target)
    wanted = {TableKind.ENVELOPE: len(renaming.sent), TableKind.CLAIM: len(renaming.won), TableKind.GUEST: old_before}
    if (rows, digest) != (rows_before, digest_before):
        raise _broken(f"{table.file} differs in more than names")
    if new_before or new != wanted[table.kind] or old != old_before - new:
        raise _broken(f"{table.file} has {new} of {wanted[table.kind]} names replaced, {old} left of {old_before}")
    return rows


def _joined(path: object) -> str:
    return (
        f"{in_parquet(engine.quoted(path))} r LEFT JOIN header h ON h.id = r.envelope_id "
        "LEFT JOIN won w ON w.id = r.envelope_id"
    )


def _broken(sentence: str) -> InvariantBroken:
    return InvariantBroken("only_names_change", f"{sentence}; nothing was published")
