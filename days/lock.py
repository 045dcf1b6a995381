"""The day lock of a SET: a rotation or a move holds it while it takes days out of the hot tables or brings some in.

It is a session-level advisory lock on the connection that does the work, so it is released when that connection ends.
A migration of a SET takes it for its one transaction (`schema.migrate`).
"""

import asyncio

from days.limits import DAY_LOCK_POLL_S, DAY_LOCK_S
from runtime.postgres import Connection

_TRY = "SELECT pg_try_advisory_lock(hashtext('hongbao_rotation'))"


async def lock_days(connection: Connection, patience_s: float = DAY_LOCK_S) -> bool:
    """Take the lock until `connection` closes; returns False if another session still holds it after `patience_s`.

    A session that holds the lock already gets it again; nothing releases it but the end of the connection.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + patience_s
    while not await connection.fetchval(_TRY):
        if loop.time() >= end:
            return False
        await asyncio.sleep(DAY_LOCK_POLL_S)
    return True
