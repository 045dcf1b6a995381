"""A restored copy goes by its own settings, whatever ALTER SYSTEM has set at its source."""

import asyncio
from pathlib import Path

import asyncpg
import pytest

from backup.backups import Backups
from backup.programs import Source
from machine.postgres.server import Postgres, PostgresSpec

pytestmark = [pytest.mark.faults, pytest.mark.timeout(120)]
SET_AT_SOURCE = {
    "synchronous_standby_names": "ANY 1 (*)",  # docs/operations/failover.md has it set
    "listen_addresses": "*",
    "max_logical_replication_workers": "8",
    "recovery_target_name": "of a restore long ago",
}


async def test_it_has_no_standby_and_listens_to_nobody_else(server_folder: Path) -> None:
    """Its commits wait for nobody, or `--with-paid` would never end; and it uses up no slot of a live move."""
    passwords = {"postgres": "secret"}
    (server_folder / "pg").mkdir(mode=0o711)
    spec = PostgresSpec("set-1", server_folder / "pg" / "set-1", server_folder / "pg.log", passwords)
    server = Postgres(spec)
    await server.start()
    try:
        connection = await asyncpg.connect(server.dsn())
        for name, value in SET_AT_SOURCE.items():
            await connection.execute(f"ALTER SYSTEM SET {name} = '{value}'")
        await connection.close()
        kept = Backups(Source("set-1", server.dsn(), passwords), server_folder / "backups")
        await kept.take()
    finally:
        await server.stop()
    restored = await kept.restore(server_folder / "restored", None)
    try:
        connection = await asyncpg.connect(restored.dsn())
        found = {name: await connection.fetchval(f"SHOW {name}") for name in SET_AT_SOURCE}
        assert found == dict(zip(SET_AT_SOURCE, ("", "127.0.0.1", "0", ""), strict=True))
        async with asyncio.timeout(20):
            await connection.execute("CREATE TABLE put_back ()")
        await connection.close()
    finally:
        await restored.stop()
