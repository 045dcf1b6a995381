"""A stack that does nothing beside what is measured: the coming days' tables are made, and no day is rotated."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta

from cluster.access import Access, find
from cluster.assembly.config import StackConfig
from cluster.assembly.stack import Stack
from cluster.rotations import today_of
from runtime import postgres
from schema.day_tables import AHEAD_DAYS, known_days

TABLES_S = 300.0
LOOK_S = 0.3


@asynccontextmanager
async def quiet_stack(config: StackConfig) -> AsyncIterator[Stack]:
    """Run a stack of these sizes for the block, once it has come to rest."""
    async with Stack(replace(config, rotate=False)) as stack:
        await _tables_stand(find(config.data))
        yield stack


async def _tables_stand(access: Access) -> None:
    wanted = today_of(access) + timedelta(days=AHEAD_DAYS)
    for one in access.topology().sets:
        connection = await postgres.connect(access.set_dsn(one.name))
        try:
            async with asyncio.timeout(TABLES_S):
                while wanted not in await known_days(connection):
                    await asyncio.sleep(LOOK_S)
        finally:
            await connection.close(timeout=postgres.CONNECT_S)
