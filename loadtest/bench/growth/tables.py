"""Growth with rows in the day tables.

Question: does a SET with a month of tables, the hot ones full of claims, open as fast as an empty one? The same number
of new envelopes, opened round robin, in turn on all sides. `empty` has as many slots as `full`, but only today's
tables, without a row; `embedded` is the layout of a first start (100 slots).

Sketch: a claim goes into one leaf and two indexes on every side; in full tables the indexes are a level deeper and a
checkpoint has touched more pages. What more slots cost is the difference between `embedded` and `empty`: a batch of
2,000 claims touches every one of 1,000 leaves. In production a SET holds 50 to 250 slots; 1,000 in one Postgres is the
most that the layout allows.
"""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import asdict
from functools import partial

from loadtest.bench import fill
from loadtest.bench.figures import Bench, Figures, interleaved
from loadtest.bench.growth.alive import wake
from loadtest.bench.growth.size import SHARES, Size
from loadtest.bench.oneset import OneSet, Tables, fire, one_set, round_robin

HOT_DAYS = 2
"""Envelopes live for a day, so they are opened on the day they were made and on the next."""


async def measure(bench: Bench, size: Size) -> Figures:
    """Fill one side, then let all take turns."""
    layouts = {"empty": Tables(size.tables.slots, 1), "full": size.tables}
    if not bench.quick:
        layouts["embedded"] = Tables()
    async with AsyncExitStack() as stack:
        sides: dict[str, OneSet] = {}
        for name, tables in layouts.items():
            bench.say(f"making {tables.leaves:,} tables")
            folder = await asyncio.to_thread(bench.scratch, f"growth-{name}")
            sides[name] = await stack.enter_async_context(one_set(folder, tables))
        bench.say(f"{size.claims:,} claims into the hot days")
        days = min(HOT_DAYS, size.tables.days)
        filled = await fill.fill_days(sides["full"], size.claims, days=days, shares=SHARES)
        for one in sides.values():
            await one.tidy()
            await _turn(one, size)  # plans, caches, the first touch of every page
        bench.say("in turn, empty and full")
        rates = await interleaved(size.rounds, {name: partial(_turn, one, size) for name, one in sides.items()})
        for name, one in sides.items():
            bench.audit(f"growth {name}", holds=await fill.adds_up(one))
        disk = await sides["full"].scalar("SELECT pg_database_size(current_database())")
    return {
        "opens_per_second": rates,
        "claims": filled,
        "disk_bytes": disk,
        "layouts": {name: {**asdict(one.tables), "leaves": one.tables.leaves} for name, one in sides.items()},
    }


async def _turn(one: OneSet, size: Size) -> float:
    return await fire(one.node, round_robin(await wake(one, size.turn_envelopes), SHARES))
