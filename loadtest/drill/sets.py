"""What concerns whole SETs: databases move under traffic, the layout's size, and the proof of everything at the end."""

import asyncio
import time
from datetime import timedelta
from functools import partial

from cluster.commands.topology import ground_of
from loadtest.drill.ground import SET, Drill
from loadtest.proof import settled
from moving.moves import move_by_time, move_live
from schema.day_tables import AHEAD_DAYS, DayTables
from sharding.slots import database_name
from upkeep.look import look

MORE_DAYS = 7
"""Of the layout, built to see what a month of it takes; no name of them is that of the past days made for the drill."""


async def build(drill: Drill) -> None:
    """Build more days of the layout. First of all: ext4 makes files at half its speed after thousands were deleted."""
    drill.say("building days of the layout")
    first = drill.today + timedelta(days=AHEAD_DAYS + 1)
    databases = partial(drill.access.topology().databases_of, SET)
    started = time.perf_counter()
    made = await DayTables(drill.owner(), databases).ensure(first, ahead_days=MORE_DAYS - 1)
    a_day_s = (time.perf_counter() - started) / max(1, len(made))
    drill.figures["build_31_days_s"] = round(a_day_s * 31, 1)


async def move(drill: Drill) -> None:
    """Begin a move by time and make a live one, under opens; none may fail, none be answered twice differently."""
    held = drill.access.topology().databases_of(SET)
    by_time, live = database_name(held[0]), database_name(held[1])
    seconds = 14.0
    drill.say(f"moving {by_time} by time and {live} live, under {drill.size.move_rate:,.0f} opens/s")
    async with drill.traffic(drill.size.move_rate, seconds) as seen:
        await asyncio.sleep(1.0)
        await move_by_time(ground_of(drill.access), by_time, "set-2")
        moved = await move_live(ground_of(drill.access), live, "set-2")
    drill.figures["move_failed"] = seen["failed"]
    drill.figures["move_opens_per_s"] = seen["rate"]
    drill.figures["live_move_stall_s"] = round(moved.figures["stall_s"], 2)


async def weigh(drill: Drill) -> None:
    """Weigh the SET's backends after what they have done."""
    found = await look(SET, drill.access.set_dsn(SET))
    weights = [one.memory_bytes / one.connections for one in found.connections if one.memory_bytes]
    drill.figures["backend_mb"] = round(max(weights, default=0) / 1024**2, 1)


async def audit(drill: Drill) -> None:
    """Prove all of it, hot, moved and archived."""
    drill.say("audit")
    report = await settled(drill.access)
    drill.figures["audit_violations"] = report.count
    drill.figures["audit_s"] = round(report.seconds, 1)
    drill.failures += [f"{one.check} {one.subject}: {one.detail}" for one in report.violations[:5]]
