"""Migrations: numbered SQL files, each applied once, in order, in a transaction, by one migrator at a time."""

import hashlib
from pathlib import Path
from typing import Any

from envelope.errors import Refused
from runtime import logs, postgres

_HERE = Path(__file__).parent
_LOCK = 0x686F6E67  # "hong": every migrator of a database takes this advisory lock

_log = logs.get("schema")

_REGISTER = """
CREATE TABLE IF NOT EXISTS migration (
    name       varchar(64) PRIMARY KEY,
    sha256     varchar(64) NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
)
"""


async def migrate_set(dsn: str) -> list[str]:
    """Bring a SET's database to the newest schema (as its owner); returns the names applied now."""
    return await _migrate(dsn, _HERE / "set")


async def migrate_wallet(dsn: str) -> list[str]:
    """Bring the wallet's database to the newest schema (as its owner); returns the names applied now."""
    return await _migrate(dsn, _HERE / "wallet")


async def _migrate(dsn: str, folder: Path) -> list[str]:
    connection = await postgres.connect(dsn, lock_timeout="10s")
    try:
        async with connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
            await connection.execute(_REGISTER)
            done = dict(await connection.fetch("SELECT name, sha256 FROM migration"))
            return [path.stem for path in sorted(folder.glob("*.sql")) if await _apply(connection, path, done)]
    finally:
        await connection.close(timeout=2.0)


async def _apply(connection: Any, path: Path, done: dict[str, str]) -> bool:
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
