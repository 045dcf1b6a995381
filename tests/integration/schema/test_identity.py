"""A database says whose it is: who was given another's address begins nothing."""

import asyncio

import asyncpg
import pytest

from errors import Refused
from schema import identity, roles
from schema.migrate import Kind, migrate, migrate_set, migrate_wallet
from tests.conftest import Databases


async def _migrated(dsn: str) -> None:
    await migrate_set(dsn)


async def test_a_database_is_one_sets(databases: Databases) -> None:
    """The first who claims it has it; another is refused with both names, and changes nothing."""
    dsn = databases.dsn_as(await databases.clone("identity", _migrated), roles.OWNER)
    setnode = databases.dsn_as(dsn, roles.SETNODE)
    await identity.wait_for(setnode, "set-1")  # nobody's yet: of a release before
    for _ in range(2):
        await identity.claim(dsn, "set-1")
    for again in (identity.claim(dsn, "set-2"), identity.wait_for(setnode, "set-2")):
        with pytest.raises(Refused, match=r"this is set-2, and the database at .* is that of set-1") as told:
            await again
        assert told.value.code == "other_database"
    await identity.wait_for(setnode, "set-1")
    connection = await asyncpg.connect(setnode)
    try:
        assert await connection.fetchval("SELECT array_agg(name) FROM belongs_to") == ["set-1"]
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute("UPDATE belongs_to SET name = 'set-2'")
    finally:
        await connection.close()


async def test_a_database_of_the_other_kind_is_not_migrated(databases: Databases) -> None:
    """Nor one of another SET, whatever the password: nothing is made in it."""
    wallet = databases.dsn_as(await databases.clone("identity_wallet", _wallet), roles.OWNER)
    with pytest.raises(Refused, match=r"is no set's: it has 0001_ledger; correct the address"):
        await migrate(wallet, Kind.SET, "set-1")
    dsn = databases.dsn_as(await databases.clone("identity", _migrated), roles.OWNER)
    await identity.claim(dsn, "set-1")
    with pytest.raises(Refused, match="is that of set-1"):
        await migrate(dsn, Kind.SET, "set-2")
    assert await migrate(dsn, Kind.SET, "set-1") == []


async def _wallet(dsn: str) -> None:
    await migrate_wallet(dsn)


async def test_a_database_that_is_away_is_waited_for() -> None:
    """Until it answers nothing else begins."""
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1.2):
            await identity.wait_for("postgresql://hongbao_setnode:x@127.0.0.1:1/hongbao", "set-1")
