"""A primary and its synchronous standby: a SET's Postgres that can fail over."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import asyncpg

from machine.account import Account
from machine.postgres.server import Postgres, PostgresSpec
from machine.postgres.standby import make_standby
from runtime.dsn import with_login
from schema import roles
from schema.cluster_setup import set_up_cluster
from tests.conftest import Build, Databases

STREAMING_S = 30.0
_STANDBY = "SELECT sync_state FROM pg_stat_replication"


class PostgresPair:
    """Both listen on their own ports; `dsn` names both, and whoever connects gets the one that takes writes."""

    def __init__(self, primary: Postgres, standby: Postgres) -> None:
        self.primary = primary
        self.standby = standby

    @property
    def dsn(self) -> str:
        """The superuser's, of our database."""
        hosts = ",".join(one.address for one in (self.primary, self.standby))
        login = f"postgres:{self.primary.spec.passwords['postgres']}"
        return f"postgresql://{login}@{hosts}/{roles.DATABASE}?target_session_attrs=read-write"

    async def fail_over(self) -> None:
        """Kill the primary as a lost host would end it, and promote the standby."""
        self.primary.kill()
        await self.primary.wait()
        await self.promote()

    async def wait_for_nobody(self) -> None:
        """Let the primary answer commits that no standby has."""
        connection = await asyncpg.connect(self.primary.dsn())
        try:
            await connection.execute("ALTER SYSTEM SET synchronous_standby_names = ''")
            await connection.execute("SELECT pg_reload_conf()")
        finally:
            await connection.close()

    async def promote(self) -> None:
        """Let the standby take writes, alone."""
        connection = await asyncpg.connect(self.standby.dsn())
        try:
            assert await connection.fetchval("SELECT pg_promote()")
            # It has no standby of its own: an operator, or Patroni, says that it need not wait for one.
            await connection.execute("ALTER SYSTEM SET synchronous_standby_names = ''")
            await connection.execute("SELECT pg_reload_conf()")
        finally:
            await connection.close()


@contextlib.asynccontextmanager
async def postgres_pair(folder: Path, account: Account) -> AsyncIterator[PostgresPair]:
    """Run both; a commit is answered once the standby has it on its disk."""
    passwords = {role: f"secret_of_{role}" for role in roles.roles_of("set")}
    spec = PostgresSpec("primary", folder / "pair" / "primary", folder / "logs" / "primary.log", passwords)
    primary = Postgres(spec, account=account)
    await primary.start()
    await set_up_cluster(primary.dsn(), primary.spec.passwords)
    standby = await make_standby(primary, folder / "pair" / "standby", folder / "logs" / "standby.log", account)
    try:
        connection = await asyncpg.connect(primary.dsn())
        await connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        await connection.execute("SELECT pg_reload_conf()")
        async with asyncio.timeout(STREAMING_S):
            while await connection.fetchval(_STANDBY) != "sync":
                await asyncio.sleep(0.05)
        await connection.close()
        yield PostgresPair(primary, standby)
    finally:
        await standby.stop("immediate")
        await primary.stop("immediate")


class PairDatabases(Databases):
    """Databases of a test, of which those made from the template `set` are the pair's."""

    def __init__(self, pair: PostgresPair, others: Databases) -> None:
        self.day = others.day
        self.roles = others.roles
        self._pair = pair
        self._others = others

    async def clone(self, template: str, build: Build) -> str:
        if template != "set":
            return await self._others.clone(template, build)
        await build(self.dsn_as(self._pair.dsn, roles.OWNER))
        return self._pair.dsn

    def dsn_as(self, dsn: str, role: str) -> str:
        if dsn == self._pair.dsn:
            return with_login(dsn, role, self._pair.primary.spec.passwords[role])
        return self._others.dsn_as(dsn, role)


async def rows_of(dsn: str, query: str, *args: Any) -> Sequence[Any]:
    """Read from the one that takes writes."""
    connection = await asyncpg.connect(dsn)
    try:
        return list(await connection.fetch(query, *args))
    finally:
        await connection.close()
