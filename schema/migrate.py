"""Migrations: numbered SQL files, each applied once, in order; all new ones in one transaction, by one migrator."""

import hashlib
from pathlib import Path

from errors import Refused
from runtime import logs, postgres
from runtime.postgres import Connection

_HERE = Path(__file__).parent
_LOCK = 0x686F6E67  # "hong": the advisory lock of migrators

_log = logs.get("schema")

_REGISTER = """
CREATE TABLE IF NOT EXISTS migration (
    name       varchar(64) PRIMARY KEY,
    sha256     varchar(64) NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
)
"""


async def migrate_set(dsn: str) -> list[str]:
    """Migrate a SET's database to the newest schema, as its owner; returns the names of the migrations applied.

    Raises Refused(`migration_changed`) if an applied file was edited since; then nothing was applied.
    """
    return await _migrate(dsn, _HERE / "set")


async def migrate_wallet(dsn: str) -> list[str]:
    """As `migrate_set`, for the wallet's database."""
    return await _migrate(dsn, _HERE / "wallet")


async def _migrate(dsn: str, folder: Path) -> list[str]:
    async with postgres.connected(dsn, lock_timeout="10s") as connection, connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
        await connection.execute(_REGISTER)
        done = dict(await connection.fetch("SELECT name, sha256 FROM migration"))
        return [path.stem for path in sorted(folder.glob("*.sql")) if await _apply(connection, path, done)]


async def _apply(connection: Connection, path: Path, done: dict[str, str]) -> bool:
    text = path.read_text(encoding="utf-8")
    digest = hashlib.sha256(text.encode()).hexdigest()
    if path.stem in done:
        if done[path.stem] != digest:
            raise Refused("migration_changed", f"{path.name} was changed after it was applied; add a new one instead")
        return False
    await connection.execute(text)
    await connection.execute("INSERT INTO migration (name, sha256) VALUES ($1, $2)", path.stem, digest)
    _log.info("migration applied", migration=path.stem)
    return True
