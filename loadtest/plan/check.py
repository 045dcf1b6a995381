"""Lets the model predict runs it has not seen, and compares.

Question: is the p99 that the model says the p99 that an open meets? Workload: one SET is calibrated with a given number
of opens in flight (a closed loop), then asked open loop at 30, 50 and 70 % of what it carried, opens arriving at random
in lumps of a millisecond, which is how a gateway's frames arrive; the latency counts from the instant at which an open
was to be sent, so that a sender that is late makes the figures worse and not better. Each rate has its turn three
times; the medians are compared. Ends with the money, like everything here.
"""

import asyncio
import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from envelope.errors import InvariantBroken
from loadtest.bench import fill
from loadtest.bench.commits import WINDOWS, Calibration
from loadtest.bench.figures import Bench, Figures
from loadtest.bench.growth.alive import wake
from loadtest.bench.growth.size import SHARES
from loadtest.bench.oneset import OneSet, one_set
from loadtest.plan import queue
from setnode.limits import BATCH_ROWS
from wire.messages import Op
from wire.server import Peer

PARTS: Final = (0.3, 0.5, 0.7)
TOLERANCE: Final = 0.3
LUMP_S: Final = 0.001
CALIBRATE_S, RUN_S, ROUNDS = 8.0, 2.0, 3
WARM_UP_S = 0.25
SETTLE_S = 10.0


@dataclass(frozen=True)
class Compared:
    """One rate. `off` is predicted p99 over seen p99, less one."""

    part: float
    rate: float
    predicted_p50_ms: float
    seen_p50_ms: float
    predicted_p99_ms: float
    seen_p99_ms: float

    @property
    def off(self) -> float:
        """How far the prediction is off, as a part of what was seen."""
        return self.predicted_p99_ms / self.seen_p99_ms - 1

    @property
    def holds(self) -> bool:
        """Whether that is within the tolerance."""
        return abs(self.off) <= TOLERANCE


class Timed(Peer):
    """Notes the latency of every answer; `sent` gives the instant at which each open was to be sent."""

    def __init__(self) -> None:
        super().__init__("bench")
        self.sent: dict[int, float] = {}
        self.latencies: list[float] = []
        self.failures: list[str] = []

    def reply(self, number: int, *values: Any) -> None:
        """Note an outcome; each must be `opened`, which is 0."""
        self.latencies.append(time.perf_counter() - self.sent.pop(number))
        if values[0]:
            self.failures.append(f"outcome {values[0]}")

    def fail(self, number: int, error: BaseException) -> None:
        """Note a failure."""
        del self.sent[number]
        self.failures.append(str(error))


async def compare(
    bench: Bench, *, calibrate_s: float = CALIBRATE_S, run_s: float = RUN_S, windows: Sequence[int] = WINDOWS
) -> list[Compared]:
    """Calibrate, run, predict and compare."""
    seen: dict[float, list[tuple[float, float]]] = {part: [] for part in PARTS}
    async with one_set(await asyncio.to_thread(bench.scratch, "check")) as one:
        calibration = Calibration(one, windows)
        bench.say("calibrating")
        await calibration.sweep(calibrate_s)
        found = calibration.figures()
        carried = min(found["opens_per_second"], _service(found).capacity)
        for number in range(ROUNDS):
            for part, runs in seen.items():
                bench.say(f"round {number + 1}, {part:.0%} of {carried:,.0f} opens/s")
                runs.append(await open_loop(one, part * carried, run_s))
            # Again between the runs: noise that comes and goes meets what is predicted from as it meets what is seen.
            await calibration.sweep(calibrate_s / ROUNDS)
        if not await fill.adds_up(one):
            raise InvariantBroken("paid_in_is_claimed", "the claims of the check do not add up")
    service = _service(calibration.figures())
    return [_compared(service, part, part * carried, runs) for part, runs in seen.items()]


def _service(found: Figures) -> queue.Service:
    return queue.Service(found["fixed_ms"] / 1e3, found["per_row_us"] / 1e6, BATCH_ROWS, found["spreads"])


def _compared(service: queue.Service, part: float, rate: float, runs: list[tuple[float, float]]) -> Compared:
    said = queue.predict(service, rate)
    p50, p99 = (statistics.median(one) for one in zip(*runs, strict=True))
    return Compared(part, rate, said.p50_s * 1e3, p50 * 1e3, said.p99_s * 1e3, p99 * 1e3)


async def open_loop(one: OneSet, rate: float, seconds: float) -> tuple[float, float]:
    """Send opens at `rate`, whatever comes back; returns p50 and p99 of those sent after the warm-up, in seconds."""
    whole = WARM_UP_S + seconds
    ids = await wake(one, int(rate * whole * 1.2 / SHARES) + 1)
    opens = [(envelope_id, f"user-{user}") for user in range(SHARES) for envelope_id in ids]
    dice, peer, number = random.Random(1), Timed(), 0
    begun = time.perf_counter()
    cold = 0
    for lump in range(int(whole / LUMP_S)):
        due = begun + lump * LUMP_S
        if (early := due - time.perf_counter()) > 0:
            await asyncio.sleep(early)
        for _ in range(_poisson(dice, rate * LUMP_S)):
            peer.sent[number] = due
            one.node.room.handle(peer, number, Op.OPEN, [*opens[number], True, None])
            number += 1
        if due - begun < WARM_UP_S:
            cold = number
    async with asyncio.timeout(SETTLE_S):
        while peer.sent:
            await asyncio.sleep(LUMP_S)
    if peer.failures:
        raise InvariantBroken("every_open_wins", f"{len(peer.failures)} opens did not win, first: {peer.failures[0]}")
    warm = peer.latencies[cold:]
    return queue.quantile(warm, 0.5), queue.quantile(warm, 0.99)


def _poisson(dice: random.Random, mean: float) -> int:
    """Draw how many arrive: count exponential gaps until one lump is over."""
    count, left = 0, dice.expovariate(1.0)
    while left < mean:
        count += 1
        left += dice.expovariate(1.0)
    return count
