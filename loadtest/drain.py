"""Waits until all payouts of SETs are done: a measurement then includes them, or the next one is free of them."""

import asyncio
from collections.abc import Iterable

from errors import Unavailable
from runtime import postgres

DRAIN_S = 120.0
LOOK_S = 0.05


async def drain_payouts(dsns: Iterable[str]) -> None:
    """Wait until no SET has a payout intent left; raises Unavailable `not_paid` after DRAIN_S."""
    connections = [await postgres.connect(dsn) for dsn in dsns]
    try:
        async with asyncio.timeout(DRAIN_S):
            for connection in connections:
                while await connection.fetchval("SELECT EXISTS (SELECT FROM payout_batch)"):
                    await asyncio.sleep(LOOK_S)
    except TimeoutError:
        raise Unavailable("not_paid", f"payouts are not done after {DRAIN_S:.0f} s; is the wallet up?") from None
    finally:
        await asyncio.gather(*(connection.close() for connection in connections))
