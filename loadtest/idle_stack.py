"""A stack that is idle before anything is measured: the tables of the coming days have been made."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from installation.access import Access
from installation.finding import find
from local.config import StackConfig
from local.stack import Stack
from runtime import postgres
from schema.day_tables import known_days

TABLES_S = 300.0
LOOK_S = 0.3


@asynccontextmanager
async def idle_stack(config: StackConfig) -> AsyncIterator[Stack]:
    """Run a stack for the block, entered once the stack is idle; raises TimeoutError after TABLES_S."""
    async with Stack(config) as stack:
        await _tables_stand(find(config.data), config.ahead_days)
        yield stack


async def _tables_stand(access: Access, ahead_days: int) -> None:
    wanted = access.today() + timedelta(days=ahead_days)
    for one in access.topology().sets:
        connection = await postgres.connect(access.set_dsn(one.name))
        try:
            async with asyncio.timeout(TABLES_S):
                while wanted not in await known_days(connection):
                    await asyncio.sleep(LOOK_S)
        finally:
            await connection.close(timeout=postgres.CONNECT_S)
