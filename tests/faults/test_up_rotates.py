"""A stack that was stopped for a month: an old day still has today's names, and it must come up and help itself."""

import asyncio
from datetime import date, timedelta
from pathlib import Path

import asyncpg
import pytest

from cli.commands.up import rotation_running
from schema import names, roles
from schema.day_tables import DayTables, known_days
from tests.faults.stack_fixtures import Crowd, running_stack

pytestmark = [pytest.mark.faults, pytest.mark.timeout(240)]


def a_month_ago(today: date) -> date:
    """The last date with the same day of the month."""
    return next(day for ago in range(9, 70) if (day := today - timedelta(days=ago)).day == today.day)


@pytest.mark.long
async def test_a_stack_of_last_month_comes_up_and_makes_room_for_today(server_folder: Path) -> None:
    """Started, it serves; the old day is archived behind the start, then today's tables are made and creates go on."""
    data, said = server_folder / "data", list[str]()
    async with running_stack(data, sets=1, servers=1) as running:
        await running.deposit("host", 10_000)
        today, owner = running.access.today(), running.access.set_dsn("set-1", roles.OWNER)
        old = a_month_ago(today)
        databases = running.access.topology().databases_of("set-1")
        connection = await asyncpg.connect(owner)
        async with asyncio.timeout(30):
            while today + timedelta(days=1) not in await known_days(connection):
                await asyncio.sleep(0.1)  # the stack still makes tables, and would make today's again
        for kind in names.TableKind:
            await connection.execute(f"DROP TABLE {names.day_table(kind, today)}")
        await connection.close()
        await DayTables(owner, databases).ensure(old, ahead_days=0)
    async with running_stack(data, sets=1, servers=1, notify=said.append) as running, rotation_running(running.stack):
        assert any("still belongs to" in line for line in said)
        async with Crowd(running, seed=1) as crowd, asyncio.timeout(120):
            # Refused until then: 503, and no money moves.
            await crowd.create("host", kind="equal", total_fen=200, count=2)
        async with asyncio.timeout(30):
            while not any(f"{old} of set-1 is archived" in line for line in said):
                await asyncio.sleep(0.1)
        assert (await running.settled_audit()).holds
