"""The cutover of a live move, from hold to switch: bounded in time, and undone without the target.

During it the database's requests wait at the gateways and then get `busy`. The target may be what failed, so nothing
that lets the traffic go on at the source waits for the target.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

from errors import HongbaoError, Unavailable
from moving import leaves, lock
from moving.auxiliary import delete_copies
from moving.context import MoveContext, notify_servers
from moving.journal import Journal
from moving.leaves import leaves_of
from moving.limits import DELETE_COPIES_S, LEAVE_S
from moving.route import Route
from runtime import logs, postgres
from runtime.postgres import Connection
from sharding.topology.changes import release

STEPS = ("held", "fenced", "equal")
BEFORE = "attached"
"""The step to which a move goes back when its cutover is undone."""

_log = logs.get("moving")


async def switched(context: MoveContext, route: Route) -> bool:
    """Say whether the database is on the target already. A switch that was on its way is published, or will never be.

    Raises Unavailable `not_published` if that cannot be known: the traffic stays held then, and a next run goes on.
    """
    return (await context.settled()).set_for_database(route.xx).name == route.target


async def release_traffic(context: MoveContext, journal: Journal) -> None:
    """Lift fence and hold: the source serves on. Durable on return; idempotent, also if no cutover has begun.

    Opens a connection of its own: that of the try that failed may be lost, or in the middle of a statement. Such a one
    does not hold the move lock; the journal's token says instead whether another process has gone on with the move.
    Raises Unavailable `move_lock_lost` in that case, and `database_unavailable` if the source is lost meanwhile: the
    traffic is still held then.
    """
    entry = journal.entry
    try:
        async with context.connect(entry.route.source) as source:
            await journal.check_alone(source)
            await leaves.unfence(source, leaves_of(entry.route.xx, entry.days("days")), journal.check)
            await context.change(lambda old: release(old, entry.route.xx), lambda: journal.check_alone(source))
            await notify_servers(source)
    except Exception as error:
        if isinstance(error, HongbaoError) or not postgres.is_lost(error):
            raise
        text = f"{entry.route.source} was lost while {entry.route.name} was released: {error}; run this again"
        raise Unavailable("database_unavailable", text) from error
    if entry.step in STEPS:
        await _note_released(journal)


async def _note_released(journal: Journal) -> None:
    """Note that the move is back before its cutover. The journal's session may be what ended it: it is not needed.

    The next run then finds the step of the cutover, and releases once more what is released already.
    """
    try:
        await journal.done(BEFORE)
    except Exception as error:
        if isinstance(error, HongbaoError) or not postgres.is_lost(error):
            raise
        _log.warning("traffic released, but not noted", database=journal.entry.route.name, error=str(error))


async def taken_over(context: MoveContext, route: Route, own_pid: int) -> bool:
    """Say whether another process has this move's lock now, because the source lost ours (`own_pid` is its backend).

    Such a process releases or switches the traffic itself, and must not be disturbed in its cutover.
    """
    async with context.connect(route.source) as source:
        holder = await lock.holder(source, route.xx)
    return holder is not None and holder != own_pid


async def make_durable(target: Connection) -> None:
    """Put all that the target has committed on its disk, rows of the replication included.

    The replication commits without waiting for the disk. A commit that waits flushes the log up to itself, and the
    message makes it write to the log even if nothing else did.
    """
    async with target.transaction():
        await target.execute("SET LOCAL synchronous_commit = on")
        await target.execute("SELECT pg_logical_emit_message(true, 'hongbao_move', 'compared')")


async def delete_copies_at_target(target: Connection, route: Route) -> None:
    """Delete the auxiliary rows that a cutover has copied; if `target` is lost, the next try or an abort does it.

    `target` is the session that holds the move lock: on any other one they might be the rows of a move that has
    switched since.
    """
    try:
        await run_within(delete_copies(target, route.slots), DELETE_COPIES_S, (target,))
    except Exception as error:
        if not postgres.is_lost(error) and getattr(error, "code", "") != "move_lock_lost":
            raise
        _log.warning("copies left at the new SET until the next try", database=route.name, error=str(error))


async def run_within(work: Coroutine[Any, Any, None], limit_s: float, connections: Sequence[Connection]) -> None:
    """Await `work` for `limit_s` seconds; then end it and raise TimeoutError, unless it succeeded or failed meanwhile.

    It is cancelled first. A server that hangs does not even answer the rollback; so if `work` has not ended after
    LEAVE_S, its `connections` are terminated one after the other, with LEAVE_S for each.
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
    """Mark the error of an abandoned task as retrieved."""
    if not task.cancelled():
        task.exception()
