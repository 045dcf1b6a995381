"""Growth with envelopes alive.

Question: how many opens a second when 10^3, 10^4, … of them are? At each step a thousand new envelopes are opened
round robin (what people open now), then envelopes drawn from all. Above LIVE_SHARES most of these are not in memory,
and an open loads its envelope first: a read of its header and log, a few hundred in one query. Sketch: an envelope in
memory costs a dictionary look-up, however many there are; loading costs about 170 µs of planning and reading for each
slot that a query touches.
"""

import asyncio
import itertools
import random
from collections.abc import Iterator, Sequence

from envelope.claim_log import ClaimLog
from loadtest.bench import fill
from loadtest.bench.figures import Bench, Figures
from loadtest.bench.growth.size import SHARES, Size
from loadtest.bench.oneset import OneSet, fire, one_set, round_robin
from setnode.limits import ENVELOPE_WEIGHT, LIVE_SHARES

A_THOUSAND = 1_000
PASSES = 4
"""An envelope is drawn at most so often at a step: with five steps it has shares for all of them."""
WINDOW = 4_000
"""Fewer than elsewhere: an open that loads its envelope waits longer, and after four seconds it receives `busy`."""


async def measure(bench: Bench, size: Size) -> Figures:
    """Add envelopes step by step, and open at each."""
    points = []
    async with one_set(await asyncio.to_thread(bench.scratch, "growth-alive")) as one:
        ids: list[int] = []
        openers = (f"stranger-{number}" for number in itertools.count())
        for step in size.alive:
            bench.say(f"{step:,} envelopes alive")
            ids += await wake(one, step - len(ids))
            few = await wake(one, min(A_THOUSAND, step))
            now = await fire(one.node, round_robin(few, SHARES))
            drawn = _draw(ids, size.drawn)
            anywhere = await fire(one.node, zip(drawn, openers, strict=False), WINDOW)
            live = len(one.node.registry)
            points.append({"alive": step, "in_memory": live, "a_thousand": now, "anywhere": anywhere})
        bench.audit("growth alive", holds=await fill.adds_up(one))
    return {"points": points, "memory_holds": LIVE_SHARES // (SHARES + ENVELOPE_WEIGHT)}


async def wake(one: OneSet, count: int) -> list[int]:
    """Make envelopes as a create leaves them: in Postgres, and in memory as long as there is room."""
    headers = fill.draft(one.today, count, SHARES, one.tables.slots, one.node.clock.now_ms())
    await fill.copy_headers(one, headers)
    for terms in headers:
        one.node.registry.adopt(ClaimLog(terms))
    return [terms.envelope_id for terms in headers]


def _draw(ids: Sequence[int], count: int) -> Iterator[int]:
    for _ in range(PASSES):
        drawn = random.sample(ids, min(count, len(ids)))
        yield from drawn
        count -= len(drawn)
