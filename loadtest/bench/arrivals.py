"""Opens that reach one SET at random, whatever comes back: open loop, inside one process.

They are due as a Poisson process and leave in lumps of a millisecond, which is how a gateway's frames arrive. A latency
counts from the instant at which an open was to be sent, so that a sender that is late makes the figures worse and not
better. Every open must win.
"""

import asyncio
import random
import time
from collections.abc import Iterator
from typing import Any, Final

from envelope.errors import InvariantBroken
from loadtest.bench.growth.alive import wake
from loadtest.bench.oneset import OneSet, round_robin
from wire.messages import Op
from wire.server import Peer

LUMP_S: Final = 0.001
WARM_UP_S: Final = 0.05
SETTLE_S: Final = 10.0
PASSES: Final = 4
"""Opens of an envelope. More envelopes would take longer to make; with fewer an open would meet its own envelope's
transaction before it."""


class Timed(Peer):
    """Notes the latency of every answer; `sent` gives the instant at which each open was to be sent."""

    def __init__(self) -> None:
        super().__init__("bench")
        self.sent: dict[int, float] = {}
        self.latencies: dict[int, float] = {}
        self.failures: list[str] = []

    def reply(self, number: int, *values: Any) -> None:
        """Note an outcome; each must be `opened`, which is 0."""
        self.latencies[number] = time.perf_counter() - self.sent.pop(number)
        if values[0]:
            self.failures.append(f"outcome {values[0]}")

    def fail(self, number: int, error: BaseException) -> None:
        """Note a failure."""
        del self.sent[number]
        self.failures.append(str(error))


async def open_loop(one: OneSet, rate: float, seconds: float, dice: random.Random) -> list[float]:
    """Send opens at `rate` a second; returns the latencies of those sent after WARM_UP_S, in seconds.

    Raises InvariantBroken where one did not win, TimeoutError where one has no answer SETTLE_S after the last.
    """
    due_then = list(lumps(rate, WARM_UP_S + seconds, dice))
    ids = await wake(one, sum(count for _, count in due_then) // PASSES + 1)
    opens = iter(round_robin(ids, PASSES))
    peer, number, cold = Timed(), 0, 0
    begun = time.perf_counter()
    for after, count in due_then:
        due = begun + after
        if (early := due - time.perf_counter()) > 0:
            await asyncio.sleep(early)
        for _, (envelope_id, user) in zip(range(count), opens, strict=False):
            peer.sent[number] = due
            one.node.room.handle(peer, number, Op.OPEN, [envelope_id, user, True, None])
            number += 1
        if after < WARM_UP_S:
            cold = number
    async with asyncio.timeout(SETTLE_S):
        while peer.sent:
            await asyncio.sleep(LUMP_S)
    if peer.failures:
        raise InvariantBroken("every_open_wins", f"{len(peer.failures)} opens did not win, first: {peer.failures[0]}")
    return [latency for number, latency in peer.latencies.items() if number >= cold]


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
