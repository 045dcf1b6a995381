"""Who may take days out of a SET's hot tables, or bring some there: a rotation or a move, one at a time.

An advisory lock of the session, on the connection that does the work: neither outlives the other.
"""

import asyncio
from typing import Any

_TRY = "SELECT pg_try_advisory_lock(hashtext('hongbao_rotation'))"
_POLL_S = 0.1


async def take_days(connection: Any, patience_s: float) -> bool:
    """Be the one who changes which days are hot, until `connection` closes; False if another still is after that long.

    What a killed one has asked last may still be running: a little patience is due.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + patience_s
    while not await connection.fetchval(_TRY):
        if loop.time() >= end:
            return False
        await asyncio.sleep(_POLL_S)
    return True
