"""Migrations: numbered SQL files, each applied once, in order; all new ones in one transaction, by one migrator.

A migration adds what the next release needs and takes nothing away that the present one uses, so that processes of both
work on it; what nobody uses any more goes with a later release.

A SET's migration takes the day lock (`days.lock`) and completes a pending detach before it changes anything, as the
next rotation would. Postgres does not pass a change of a hot table on to a partition of which the detach is pending,
and then neither finalizes that detach nor lets anybody change the partition: until the change were taken back, no day
of that SET could leave the hot tables. It does not leave that to a rotation, because a stack that is started with a new
release migrates first.
"""

import hashlib
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

import asyncpg

from errors import Refused, Unavailable
from runtime import logs, postgres
from runtime.dsn import place
from runtime.postgres import Connection
from runtime.postgres.locks import retry_while_locked
from schema import identity

_HERE = Path(__file__).parent
_LOCK = 0x686F6E67  # "hong": the advisory lock of migrators
LOCK_S = 10
"""How long a migration tries to get its tables while others use them, or another migrator works; then it changes
nothing."""
LOCK_TIMEOUT_MS = 200
"""`lock_timeout` of each try: while it waits for a table, all later statements on it wait behind it."""
LOCK_TIMEOUT_VACUUM_MS = 1_500
"""`lock_timeout` while a vacuum works in the database. Postgres cancels an autovacuum once a statement has waited for
its table for `deadlock_timeout`, a second."""
_LOCK_TIMEOUT = """SELECT set_config('lock_timeout', CASE WHEN EXISTS (
    SELECT FROM pg_stat_progress_vacuum WHERE datname = current_database()) THEN $1 ELSE $2 END, true)"""

_log = logs.get("schema")

_DAY_LOCK = "SELECT pg_try_advisory_xact_lock(hashtext('hongbao_rotation'))"
"""The lock of `days.lock`, to the end of the transaction."""
_PENDING_DETACH = """
SELECT i.inhparent::regclass::text AS parent, i.inhrelid::regclass::text AS partition FROM pg_inherits i
WHERE i.inhdetachpending
    AND i.inhparent IN (to_regclass('public.envelope'), to_regclass('public.claim'), to_regclass('public.guest'))
"""

_REGISTER = """
CREATE TABLE IF NOT EXISTS migration (
    name       varchar(64) PRIMARY KEY,
    sha256     varchar(64) NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
)
"""


class _DaysAreLeavingError(Exception):
    """Days are taken out of the hot tables just now: the attempt is repeated as if a lock were not to be had."""

    sqlstate = asyncpg.LockNotAvailableError.sqlstate


class Kind(StrEnum):
    """Which database a migration is for; also the folder of its files."""

    SET = "set"
    WALLET = "wallet"


class Difference(NamedTuple):
    """What a database lacks of this release's migrations, what it has beyond them, and what was edited since."""

    missing: list[str]
    beyond: list[str]
    changed: list[str]


async def migrate_set(dsn: str) -> list[str]:
    """Migrate a SET's database to the newest schema, as its owner; returns the names of the migrations applied.

    Raises Refused `migration_changed` if an applied file was edited since, `role_missing` if a role of ours is not in
    the cluster, Unavailable `migration_waits` if a table, another migrator, a rotation, a move or a pending detach was
    in the way for LOCK_S. Then nothing was applied.
    """
    return await migrate(dsn, Kind.SET)


async def migrate_wallet(dsn: str) -> list[str]:
    """As `migrate_set`, for the wallet's database."""
    return await migrate(dsn, Kind.WALLET)


async def migrate(dsn: str, kind: Kind, name: str = "") -> list[str]:
    """As `migrate_set`, for a database of this kind; `name`: whose it must be (`schema.identity`), "" for anybody's.

    Raises Refused `other_database`, too, if it is another's, or of the other kind.
    """
    return await _migrate(dsn, _HERE / kind.value, name)


async def _migrate(dsn: str, folder: Path, name: str = "") -> list[str]:
    try:
        async with postgres.connected(dsn) as connection:
            return await retry_while_locked(lambda: _migrate_at_once(connection, dsn, folder, name), patience_s=LOCK_S)
    except _DaysAreLeavingError as error:
        raise Unavailable("migration_waits", f"{error}; nothing was changed, migrate again") from error
    except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError) as error:
        raise Unavailable(
            "migration_waits",
            f"another migration, somebody's transaction or a vacuum was in the way for {LOCK_S} s: {error}",
        ) from error
    except asyncpg.UndefinedObjectError as error:
        raise Refused("role_missing", f"{error}; create the roles of docs/security.md in this cluster first") from error


async def _migrate_at_once(connection: Connection, dsn: str, folder: Path, name: str) -> list[str]:
    """Apply what is missing, in one transaction; where a lock is not to be had, nothing."""
    async with connection.transaction():
        await connection.execute(_LOCK_TIMEOUT, f"{LOCK_TIMEOUT_VACUUM_MS}ms", f"{LOCK_TIMEOUT_MS}ms")
        await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
        await connection.execute(_REGISTER)
        done = dict(await connection.fetch("SELECT name, sha256 FROM migration"))
        await _refuse_other(connection, done, folder, name, dsn)
        _refuse_changed(_difference(folder, done).changed)
        missing = [path for path in _files(folder) if path.stem not in done]
        if missing and folder.name == Kind.SET:
            await _let_days_go(connection)
        for path in missing:
            await _apply(connection, path)
    for path in missing:
        _log.info("migration applied", migration=path.stem)
    return [path.stem for path in missing]


async def _let_days_go(connection: Connection) -> None:
    """Keep rotations and moves off to the end of the transaction, and complete each pending detach.

    Raises _DaysAreLeavingError if one is at work, or if a detach waits for somebody's transaction.
    """
    if not await connection.fetchval(_DAY_LOCK):
        raise _DaysAreLeavingError(
            f"a rotation, a move of a database or `user forget` was at work on this SET for {LOCK_S} s; wait for it"
        )
    for row in await connection.fetch(_PENDING_DETACH):
        try:
            await connection.execute(f"ALTER TABLE {row['parent']} DETACH PARTITION {row['partition']} FINALIZE")
        except asyncpg.LockNotAvailableError as error:
            raise _DaysAreLeavingError(
                f"the detach of {row['partition']} from the hot tables is not complete: it waits for old transactions "
                "of this database; `hongbao rotate run` names them"
            ) from error


async def compare(connection: Connection, kind: Kind) -> Difference:
    """Compare what was applied to a database with this release's files; writes nothing."""
    if await connection.fetchval("SELECT to_regclass('migration')") is None:
        return _difference(_HERE / kind.value, {})
    return _difference(_HERE / kind.value, dict(await connection.fetch("SELECT name, sha256 FROM migration")))


def _difference(folder: Path, done: dict[str, str]) -> Difference:
    files = {path.stem: _digest(path) for path in _files(folder)}
    return Difference(
        missing=[name for name in files if name not in done],
        beyond=sorted(set(done) - set(files)),
        changed=[name for name, digest in files.items() if done.get(name, digest) != digest],
    )


async def _refuse_other(connection: Connection, done: Mapping[str, str], folder: Path, name: str, dsn: str) -> None:
    """Raise Refused `other_database` before anything is made in a database of the other kind, or of another name."""
    if done and _files(folder)[0].stem not in done:
        raise Refused(
            "other_database",
            f"the database at {place(dsn)} is no {folder.name}'s: it has {min(done)}; correct the address",
        )
    if name and await connection.fetchval("SELECT to_regclass('public.belongs_to')") is not None:
        await identity.check(connection, name, dsn)


def _refuse_changed(changed: list[str]) -> None:
    if changed:
        raise Refused("migration_changed", f"{changed[0]}.sql was changed after it was applied; add a new one instead")


async def _apply(connection: Connection, path: Path) -> None:
    await connection.execute(path.read_text(encoding="utf-8"))
    await connection.execute("INSERT INTO migration (name, sha256) VALUES ($1, $2)", path.stem, _digest(path))


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.sql"))


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
