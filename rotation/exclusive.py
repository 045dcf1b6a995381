"""One rotation a SET at a time: an advisory lock on the connection that does the work; neither outlives the other."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from envelope.errors import Refused
from rotation import crash
from rotation.limits import BUSY_S, LOCK_TIMEOUT_MS
from runtime import postgres

_TRY = "SELECT pg_try_advisory_lock(hashtext('hongbao_rotation'))"
_POLL_S = 0.1


@asynccontextmanager
async def alone(dsn: str) -> AsyncIterator[Any]:
    """Give the one connection that may rotate this SET (as its owner), impatient with every lock.

    Raises Refused `rotation_busy` when another rotation is at work; nothing was changed then.
    """
    connection = await postgres.connect(
        dsn, lock_timeout=f"{LOCK_TIMEOUT_MS}ms", application_name="hongbao:rotate",
        plan_cache_mode="force_custom_plan",
    )  # fmt: skip
    try:
        await _lock(connection)
        crash.reach(crash.Point.LOCKED)
        yield connection
    finally:
        await connection.close(timeout=2.0)


async def _lock(connection: Any) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + BUSY_S
    while not await connection.fetchval(_TRY):
        if loop.time() >= end:
            raise Refused("rotation_busy", "another rotation of this SET is at work; wait for it, or ask its status")
        await asyncio.sleep(_POLL_S)
