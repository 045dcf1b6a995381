"""Waits until a SET owes nobody anything: what was measured before then includes paying it out."""

import asyncio
from collections.abc import Iterable

from envelope.errors import Unavailable
from runtime import postgres

SETTLE_S = 120.0
LOOK_S = 0.05


async def paid_out(dsns: Iterable[str]) -> None:
    """Wait until no SET has a payout intent left; raises Unavailable when that takes minutes."""
    connections = [await postgres.connect(dsn) for dsn in dsns]
    try:
        async with asyncio.timeout(SETTLE_S):
            for connection in connections:
                while await connection.fetchval("SELECT EXISTS (SELECT FROM payout_batch)"):
                    await asyncio.sleep(LOOK_S)
    except TimeoutError:
        raise Unavailable("not_paid", f"payouts are not done after {SETTLE_S:.0f} s; is the wallet well?") from None
    finally:
        await asyncio.gather(*(connection.close() for connection in connections))
