"""The clock of a sandbox's databases: what Postgres dates and checks by itself."""

from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from errors import Refused, Unavailable
from local import clock_move
from schema import sandbox
from schema.migrate import migrate_set, migrate_wallet

DAY_MS = 86_400_000


async def ask(dsn: str, statement: str) -> Any:
    connection = await asyncpg.connect(dsn)
    try:
        return await connection.fetchval(statement)
    finally:
        await connection.close()


async def test_a_set_closes_days_by_the_sandboxs_date(databases):
    """`business_today`, which guards the closing of days, moves with the clock, and by exactly that much."""
    dsn = await databases.clone("set_without_days", migrate_set)
    before = await ask(dsn, "SELECT business_today()")
    await sandbox.put_ahead(dsn, 40 * DAY_MS, wallet=False)
    ahead = await ask(dsn, "SELECT sandbox_now() - now()")
    assert ahead == timedelta(days=40)
    assert (await ask(dsn, "SELECT business_today()") - before).days in (40, 41)  # midnight may pass between them


async def test_the_wallet_dates_by_the_sandboxs_clock_in_a_session_that_was_open_before(databases):
    """Transfers and funds are dated by the clock as it is at their statement, also where its plan was made before."""
    dsn = await databases.clone("wallet", migrate_wallet)
    await sandbox.put_ahead(dsn, 0, wallet=True)
    connection, mover = await asyncpg.connect(dsn), await asyncpg.connect(dsn)
    try:
        await connection.execute("SET plan_cache_mode = force_generic_plan")
        await connection.execute("INSERT INTO account (name, kind) VALUES ('outside', 2), ('user:a', 0)")
        deposit = await connection.prepare(
            "INSERT INTO transfer (order_no, kind, debit_account, credit_account, user_account, amount_fen) "
            "SELECT $1, 0, o.account_id, u.account_id, u.account_id, 1 FROM account o, account u "
            "WHERE o.name = 'outside' AND u.name = 'user:a' RETURNING created_at - now()"
        )
        assert await deposit.fetchval("D1") == timedelta()
        for days in (1, 400):
            await sandbox.move(mover, days * DAY_MS)
            assert await deposit.fetchval(f"D{days + 1}") == timedelta(days=days)
        fund = await ask(dsn, "SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = 'fund'::regclass")
        assert fund == "sandbox_now()"
    finally:
        await connection.close()
        await mover.close()


async def test_a_database_of_a_sandbox_is_refused_elsewhere(databases):
    """A Postgres folder that was copied from a sandbox under a real installation is known by its own clock."""
    dsn = await databases.clone("set_without_days", migrate_set)
    await sandbox.refuse_sandbox(dsn, "set-1")
    await sandbox.put_ahead(dsn, 0, wallet=False)
    with pytest.raises(Refused, match="set-1 is that of a sandbox") as refused:
        await sandbox.refuse_sandbox(dsn, "set-1")
    assert refused.value.code == "sandbox_data"


async def test_all_databases_are_moved_or_none(databases):
    """If one cannot be reached, the one before it has not moved either."""
    dsn = await databases.clone("set_without_days", migrate_set)
    await sandbox.put_ahead(dsn, DAY_MS, wallet=False)

    class OneIsAway:
        def servers(self) -> list[str]:
            return ["set-1", "set-2"]

        def dsn(self, server: str, role: str) -> str:
            return dsn if server == "set-1" else "postgresql://hongbao_owner:x@127.0.0.1:1/hongbao"

    with pytest.raises(Unavailable):
        await clock_move._move_databases(OneIsAway(), 2 * DAY_MS)
    assert await ask(dsn, "SELECT sandbox_now() - now()") == timedelta(days=1)
