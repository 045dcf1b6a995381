"""The steps that concern whole SETs: more days of tables, moves under traffic, memory of backends, the final audit."""

import asyncio
import time
from datetime import timedelta
from functools import partial

from errors import Unavailable
from inspection.database import inspect_database
from loadtest.drill.context import SET, DrillContext
from loadtest.run_proof import audit_when_paid
from moving.context import context_of
from moving.limits import CUTOVER_S
from moving.moves import move_by_time, move_live
from schema.day_tables import AHEAD_DAYS, DayTables
from sharding.slots import database_name

TRIES = 3
"""Of the live move."""
MORE_DAYS = 7
"""Days of tables built to see what a month takes; none has the name (day of the month) of the drill's past days."""


async def build(drill: DrillContext) -> None:
    """Build more days of tables. This comes first: ext4 makes files at half its speed after thousands were deleted."""
    drill.say("building days of the layout")
    first = drill.today + timedelta(days=AHEAD_DAYS + 1)
    databases = partial(drill.access.topology().databases_of, SET)
    started = time.perf_counter()
    made = await DayTables(drill.owner(), databases).ensure(first, ahead_days=MORE_DAYS - 1)
    a_day_s = (time.perf_counter() - started) / max(1, len(made))
    drill.figures["build_31_days_s"] = round(a_day_s * 31, 1)


async def move(drill: DrillContext) -> None:
    """Begin a move by time and make a live one while opens arrive; none of them may fail.

    A machine that stands still meanwhile makes the live one give up: it is begun again, as its error says.
    """
    held = drill.access.topology().databases_of(SET)
    by_time, live = database_name(held[0]), database_name(held[1])
    seconds = 14.0
    drill.say(f"moving {by_time} by time and {live} live, under {drill.size.move_rate:,.0f} opens/s")
    async with drill.traffic(drill.size.move_rate, seconds) as seen:
        await asyncio.sleep(1.0)
        await move_by_time(context_of(drill.access), by_time, "set-2")
        for left in reversed(range(TRIES)):
            try:
                moved = await move_live(context_of(drill.access), live, "set-2")
                break
            except Unavailable as error:
                if error.code != "stall_too_long" or not left:
                    raise
                drill.say(f"{error.detail}; again")
    drill.figures["move_failed"] = seen["failed"]
    drill.figures["move_opens_per_s"] = seen["rate"]
    # One that was begun again behind its stall has measured none; it was below the bound, or the move had given up.
    drill.figures["live_move_stall_s"] = round(moved.figures.get("stall_s", CUTOVER_S), 2)


async def weigh(drill: DrillContext) -> None:
    """Measure the memory of the SET's backends after all their work."""
    found = await inspect_database(SET, drill.access.set_dsn(SET))
    weights = [one.memory_bytes / one.connections for one in found.connections if one.memory_bytes]
    drill.figures["backend_mb"] = round(max(weights, default=0) / 1024**2, 1)


async def audit(drill: DrillContext) -> None:
    """Audit everything, hot, moved and archived."""
    drill.say("audit")
    report = await audit_when_paid(drill.access)
    drill.figures["audit_violations"] = report.count
    drill.figures["audit_s"] = round(report.seconds, 1)
    drill.failures += [f"{one.check} {one.subject}: {one.detail}" for one in report.violations[:5]]
