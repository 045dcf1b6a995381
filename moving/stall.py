"""The stall of a live move, from hold to switch: bounded whatever hangs, and ended with the source and the file alone.

While it lasts the database answers `busy`. So nothing here that ends it waits for the target, which may be what failed.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

from moving import leaves
from moving.ground import TOPOLOGY_CHANNEL, Ground, Route
from moving.journal import Journal
from moving.leaves import leaves_of
from moving.limits import FORGET_S, LEAVE_S
from moving.sides import forget_copies
from runtime import logs, postgres
from sharding.topology import change
from sharding.topology.changes import release

STEPS = ("held", "fenced", "equal")
BEFORE = "attached"
"""Where a move stands whose stall was ended."""

_log = logs.get("moving")


def switched(ground: Ground, route: Route) -> bool:
    """Say whether the database is on the target already, by the topology as it is now."""
    return ground.topology().set_for_database(route.xx).name == route.target


async def end(ground: Ground, journal: Journal) -> None:
    """Let the traffic go on where it was; durable on return, idempotent, also where nothing stands still.

    Over a connection of its own: that of a try that failed may be in the middle of something, or lost.
    """
    entry = journal.entry
    async with ground.connect(entry.route.source) as source:
        await leaves.unfence(source, leaves_of(entry.route.xx, entry.days("days")))
        change(ground.topology_path, lambda old: release(old, entry.route.xx))
        await source.execute("SELECT pg_notify($1, '')", TOPOLOGY_CHANNEL)
    if entry.step in STEPS:
        await journal.done(BEFORE)


async def forget(ground: Ground, route: Route) -> None:
    """Delete at the target what the stall has brought, where it answers; else the next try does it, or the abort."""
    try:
        async with asyncio.timeout(FORGET_S), ground.connect(route.target) as target:
            await forget_copies(target, route.slots)
    except Exception as error:
        if not postgres.is_lost(error) and getattr(error, "code", "") != "database_unavailable":
            raise
        _log.warning("copies left at the new SET until the next try", database=route.name, error=str(error))


async def in_time(work: Coroutine[Any, Any, None], limit_s: float, connections: Sequence[Any]) -> None:
    """Await `work` for `limit_s`; raises TimeoutError when it has not ended by then, and it has ended soon after.

    A side that hangs would not even let its transaction be rolled back: what does not stop when it is told to loses its
    `connections`, one after the other.
    """
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task}, timeout=limit_s)
    finally:
        late = not task.done()
        if late:
            task.cancel()
            await asyncio.wait({task}, timeout=LEAVE_S)
        for connection in connections:
            if not task.done():
                connection.terminate()
                await asyncio.wait({task}, timeout=LEAVE_S)
        task.add_done_callback(_retrieve)
    if late and (not task.done() or task.cancelled() or postgres.is_lost(task.exception() or Exception())):
        raise TimeoutError
    task.result()


def _retrieve(task: "asyncio.Task[None]") -> None:
    """Take note of an error that nobody waits for any more."""
    if not task.cancelled():
        task.exception()
