"""One rotation a SET at a time, and no move of a database takes days over meanwhile (`schema.day_lock`)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from envelope.errors import Refused
from rotation import crash
from rotation.limits import BUSY_S, LOCK_TIMEOUT_MS
from runtime import postgres
from schema.day_lock import take_days


@asynccontextmanager
async def alone(dsn: str) -> AsyncIterator[Any]:
    """Give the one connection that may rotate this SET (as its owner), impatient with every lock.

    Raises Refused `rotation_busy` when another rotation, or a move, is at work; nothing was changed then.
    """
    connection = await postgres.connect(
        dsn, lock_timeout=f"{LOCK_TIMEOUT_MS}ms", application_name="hongbao:rotate",
        plan_cache_mode="force_custom_plan",
    )  # fmt: skip
    try:
        if not await take_days(connection, BUSY_S):
            text = "another rotation of this SET, or a move of a database, is at work; wait for it, or ask its status"
            raise Refused("rotation_busy", text)
        crash.reach(crash.Point.LOCKED)
        yield connection
    finally:
        await connection.close(timeout=2.0)
