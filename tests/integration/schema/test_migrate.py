"""Migrations: applied once, by one migrator, in one transaction; what is newer or edited is said."""

import asyncio
from pathlib import Path

import asyncpg
import pytest

from errors import Refused, Unavailable
from runtime import postgres
from schema import migrate as schema_migrate
from schema import roles
from schema.migrate import Difference, Kind, compare, migrate


@pytest.fixture
def releases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of migrations that a test writes."""
    (tmp_path / "set").mkdir()
    monkeypatch.setattr(schema_migrate, "_HERE", tmp_path)
    return tmp_path / "set"


async def _difference(dsn: str) -> Difference:
    async with postgres.connected(dsn) as connection:
        return await compare(connection, Kind.SET)


async def _empty(databases) -> str:
    return databases.dsn_as(await databases.empty(), roles.OWNER)


async def test_each_is_applied_once_and_the_difference_is_said(databases, releases: Path) -> None:
    """Before, after, with an edited file, and by an older release on a newer database."""
    dsn = await _empty(databases)
    (releases / "0001_one.sql").write_text("CREATE TABLE one (a integer);")
    (releases / "0002_two.sql").write_text("CREATE TABLE two (a integer);")
    assert await _difference(dsn) == Difference(["0001_one", "0002_two"], [], [])
    assert await migrate(dsn, Kind.SET) == ["0001_one", "0002_two"]
    assert await migrate(dsn, Kind.SET) == []
    assert await _difference(dsn) == Difference([], [], [])
    (releases / "0002_two.sql").unlink()
    assert await _difference(dsn) == Difference([], ["0002_two"], [])
    assert await migrate(dsn, Kind.SET) == []
    (releases / "0001_one.sql").write_text("CREATE TABLE other (a integer);")
    assert (await _difference(dsn)).changed == ["0001_one"]
    with pytest.raises(Refused, match="0001_one"):
        await migrate(dsn, Kind.SET)


async def test_one_that_fails_leaves_nothing(databases, releases: Path) -> None:
    """All new migrations are one transaction; a missing role is a sentence."""
    dsn = await _empty(databases)
    (releases / "0001_one.sql").write_text("CREATE TABLE one (a integer);")
    (releases / "0002_two.sql").write_text("GRANT SELECT ON one TO hongbao_of_tomorrow;")
    with pytest.raises(Refused) as refused:
        await migrate(dsn, Kind.SET)
    assert refused.value.code == "role_missing"
    assert "hongbao_of_tomorrow" in refused.value.detail
    assert await _difference(dsn) == Difference(["0001_one", "0002_two"], [], [])


async def test_of_two_migrators_one_waits(databases, releases: Path) -> None:
    """Both end well, and each migration is applied by one of them."""
    dsn = await _empty(databases)
    (releases / "0001_one.sql").write_text("SELECT pg_sleep(0.3); CREATE TABLE one (a integer);")
    applied = await asyncio.gather(migrate(dsn, Kind.SET), migrate(dsn, Kind.SET))
    assert sorted(applied) == [[], ["0001_one"]]


async def test_a_table_in_use_does_not_hold_everybody_up(
    databases, releases: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A migration that does not get its lock gives up, and says so; nothing was changed."""
    dsn = await _empty(databases)
    (releases / "0001_one.sql").write_text("CREATE TABLE one (a integer);")
    await migrate(dsn, Kind.SET)
    (releases / "0002_two.sql").write_text("ALTER TABLE one ADD COLUMN b integer;")
    monkeypatch.setattr(schema_migrate, "LOCK_S", 1)
    reader = await asyncpg.connect(dsn)
    try:
        async with reader.transaction():
            await reader.execute("SELECT * FROM one")
            with pytest.raises(Unavailable) as waits:
                await migrate(dsn, Kind.SET)
    finally:
        await reader.close()
    assert waits.value.code == "migration_waits"
    assert await migrate(dsn, Kind.SET) == ["0002_two"]


async def test_statements_pass_a_migration_that_waits(databases, releases: Path) -> None:
    """A reader holds the table for long, as an audit does: others are not in line behind the migration meanwhile."""
    dsn = await _empty(databases)
    (releases / "0001_one.sql").write_text("CREATE TABLE one (a integer);")
    await migrate(dsn, Kind.SET)
    (releases / "0002_two.sql").write_text("ALTER TABLE one ADD COLUMN b integer;")
    async with postgres.connected(dsn) as reader, postgres.connected(dsn) as user:
        async with reader.transaction():
            await reader.execute("SELECT * FROM one")
            migrating = asyncio.create_task(migrate(dsn, Kind.SET))
            async with asyncio.timeout(20):
                while not await user.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):
                    await asyncio.sleep(0.01)
            assert await user.fetch("SELECT * FROM one") == []
            assert not migrating.done(), "it tries again and again"
        assert await migrating == ["0002_two"]


async def test_a_vacuum_is_waited_for_until_postgres_sends_it_away(databases, releases: Path) -> None:
    """An autovacuum leaves a table to who has waited for `deadlock_timeout`: a try is longer while a vacuum works."""
    dsn = await _empty(databases)

    async def timeout() -> str:
        async with postgres.connected(dsn) as owner, owner.transaction():
            args = f"{schema_migrate.LOCK_TIMEOUT_VACUUM_MS}ms", f"{schema_migrate.LOCK_TIMEOUT_MS}ms"
            return await owner.fetchval(schema_migrate._LOCK_TIMEOUT, *args)

    (releases / "0001_one.sql").write_text("CREATE TABLE one AS SELECT n FROM generate_series(1, 50000) AS n;")
    await migrate(dsn, Kind.SET)
    assert await timeout() == "200ms"
    async with postgres.connected(dsn, vacuum_cost_delay="100ms", vacuum_cost_limit="1") as vacuuming:
        deadlock_ms = await vacuuming.fetchval("SELECT setting::int FROM pg_settings WHERE name = 'deadlock_timeout'")
        assert deadlock_ms < schema_migrate.LOCK_TIMEOUT_VACUUM_MS
        vacuum = asyncio.ensure_future(vacuuming.execute("VACUUM one"))
        async with asyncio.timeout(20):
            while await timeout() != "1500ms":
                await asyncio.sleep(0.01)
        vacuuming.terminate()
        await asyncio.wait({vacuum})
