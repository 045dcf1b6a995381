"""Opens that reach one SET at random, whatever comes back: open loop, inside one process.

Opens are due as a Poisson process and leave in lumps of a millisecond, which is how a gateway's frames arrive. A
latency counts from the instant at which an open was due, so that a late sender makes the figures worse and not better.
Every open must win; Overrun is raised where more was sent than the SET carries.
"""

import asyncio
import random
import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final

from errors import HongbaoError, InvariantBroken, Unavailable
from loadtest.bench.growth.alive import wake
from loadtest.bench.oneset import OneSet, round_robin
from wire.messages import Op
from wire.server import Caller

LUMP_S: Final = 0.001
WARM_UP_S: Final = 0.05
SETTLE_S: Final = 10.0
PASSES: Final = 4
"""Opens of an envelope: few enough that an open seldom waits for an earlier transaction of its own envelope, and more
than one, because envelopes take time to make."""


class Overrun(Unavailable):
    """More was sent than the SET carries: its queue grew until requests were too old and received `busy`."""


class Timed(Caller):
    """Notes the latency of every answer; open number n was to be sent `due[n]` seconds after `begun`."""

    def __init__(self, due: Sequence[float]) -> None:
        super().__init__("bench")
        self.begun = time.perf_counter()
        self.waiting = len(due)
        self.latencies = [0.0] * len(due)
        self.busy = 0
        self.failures: list[str] = []
        self._due = due

    def reply(self, number: int, *values: Any) -> None:
        """Note an outcome; each must be `opened`, which is 0."""
        self.latencies[number] = time.perf_counter() - self.begun - self._due[number]
        self.waiting -= 1
        if values[0]:
            self.failures.append(f"outcome {values[0]}")

    def fail(self, number: int, error: BaseException) -> None:
        """Note a failure; `busy` is counted apart, for requests that waited too long."""
        del number
        self.waiting -= 1
        if isinstance(error, HongbaoError) and error.code == "busy":
            self.busy += 1
        else:
            self.failures.append(str(error))


async def open_loop(one: OneSet, rate: float, seconds: float, dice: random.Random) -> list[float]:
    """Send opens at `rate` a second; returns the latencies of those sent after WARM_UP_S, in seconds.

    Raises Overrun where the SET carries less than `rate`, InvariantBroken where an open did not win for another reason,
    TimeoutError where one has no answer SETTLE_S after the last.
    """
    due_then = list(lumps(rate, WARM_UP_S + seconds, dice))
    due = [after for after, count in due_then for _ in range(count)]
    ids = await wake(one, len(due) // PASSES + 1)
    # Drafted ahead: the sender shares the event loop with the SET.
    opens = [[envelope_id, user, True, None] for envelope_id, user in round_robin(ids, PASSES)]
    line, handle = enumerate(opens), one.node.dispatcher.handle
    caller = Timed(due)
    for after, count in due_then:
        if (early := caller.begun + after - time.perf_counter()) > 0:
            await asyncio.sleep(early)
        for number, values in islice(line, count):
            handle(caller, number, Op.OPEN, values)
    async with asyncio.timeout(SETTLE_S):
        while caller.waiting:
            await asyncio.sleep(LUMP_S)
    if caller.failures:
        raise InvariantBroken(
            "every_open_wins", f"{len(caller.failures)} opens did not win, first: {caller.failures[0]}"
        )
    if caller.busy:
        told = f"{caller.busy:,} of {len(due):,} opens had waited too long"
        raise Overrun("busy", f"{told}: {rate:,.0f} a second are more than the SET carries now; send fewer")
    return caller.latencies[bisect_left(due, WARM_UP_S) :]


def lumps(rate: float, seconds: float, dice: random.Random) -> Iterator[tuple[float, int]]:
    """Return (instant, how many opens are due then), for a Poisson process seen once a lump."""
    for lump in range(int(seconds / LUMP_S)):
        yield lump * LUMP_S, _poisson(dice, rate * LUMP_S)


def _poisson(dice: random.Random, mean: float) -> int:
    """Draw how many arrive: count exponential gaps until one lump is over."""
    count, left = 0, dice.expovariate(1.0)
    while left < mean:
        count += 1
        left += dice.expovariate(1.0)
    return count
