"""The rotation lock: a SET has one rotation at a time, and no move takes its days over meanwhile (`days.lock`)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from days import crash_points
from days.limits import LOCK_TIMEOUT_MS
from days.lock import lock_days
from errors import Refused
from rotation.points import Point
from runtime.postgres import Connection, connected


@asynccontextmanager
async def rotation_lock(dsn: str) -> AsyncIterator[Connection]:
    """Give the one connection that may rotate this SET, as its owner; it waits LOCK_TIMEOUT_MS for a table lock.

    The lock ends with the connection, at the end of the block or of the process.

    Raises Refused `rotation_busy` if another rotation, a move or a migration is at work; nothing was changed then.
    """
    async with connected(
        dsn, lock_timeout=f"{LOCK_TIMEOUT_MS}ms", application_name="hongbao:rotate",
        plan_cache_mode="force_custom_plan",
    ) as connection:  # fmt: skip
        if not await lock_days(connection):
            text = (
                "another rotation of this SET, a move of a database or a migration is at work; wait for it, or ask its "
                "status"
            )
            raise Refused("rotation_busy", text)
        crash_points.reach(Point.LOCKED)
        yield connection
