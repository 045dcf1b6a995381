"""Lets the model predict runs it has not seen, and compares.

Question: is the p99 that the model says the p99 that an open meets? Workload: forty turns inside one SET. In each it
works with fixed numbers of opens in flight and at 20, 40, 60 and 80 % of what it then carried; the model is fitted to
that. Then it works at 30, 50 and 70 %, 0.4 s each, which the model has not seen: these it predicts. A model of its own
for each turn, because a shared machine is another one every few seconds: put together, the quick turns' rates would
meet the slow turns' batches. What was predicted and what was seen of all turns is compared, and what is seen comes with
the interval in which nine of ten draws of as many turns lie: a p99 is a few stalls.

What is predicted is the same experiment: turns that begin with an empty queue, lumps, and a timer that rings up to half
a millisecond early or late. Ends with the money, like everything here.
"""

import asyncio
import random
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from envelope.errors import InvariantBroken
from loadtest.bench import fill
from loadtest.bench.arrivals import WARM_UP_S, lumps, open_loop
from loadtest.bench.commits import WINDOWS, Calibration
from loadtest.bench.figures import Bench
from loadtest.bench.oneset import one_set
from loadtest.plan import queue
from loadtest.stolen import Stolen

PARTS: Final = (0.3, 0.5, 0.7)
"""None of those that the model is fitted to."""
TOLERANCE: Final = 0.3
TIMER_S: Final = 0.001
"""A loop's timer (libuv's) rings at a whole millisecond, the nearest."""
TURNS, TURN_S = 40, 0.4
TURN_WINDOWS: Final = tuple(window for window in WINDOWS if window <= 600)  # noqa: PLR2004 - as large as batches come
DRAWS: Final = 200
KEPT: Final = 500
"""Latencies of a turn that a draw looks at, evenly from the shortest to the longest."""
WALKS: Final = 10
"""Turns that are predicted for each that is run: stalls are rare."""


@dataclass(frozen=True)
class Compared:
    """One load. `off` is predicted p99 over seen p99, less one; the range holds nine of ten draws of the turns."""

    part: float
    rate: float
    """The median of the turns."""
    predicted_p50_ms: float
    seen_p50_ms: float
    predicted_p99_ms: float
    seen_p99_ms: float
    seen_p99_range_ms: tuple[float, float]

    @property
    def off(self) -> float:
        """How far the prediction is off, as a part of what was seen."""
        return self.predicted_p99_ms / self.seen_p99_ms - 1

    @property
    def holds(self) -> bool:
        """Whether that is within the tolerance."""
        return abs(self.off) <= TOLERANCE


@dataclass(frozen=True)
class Went:
    """One turn, open loop, and the model that was fitted just before it."""

    rate: float
    service: queue.Service
    latencies_s: list[float]


@dataclass(frozen=True)
class Finding:
    """All rates, and the part of the cores' time that the host gave to others meanwhile."""

    points: list[Compared]
    stolen: float

    @property
    def holds(self) -> bool:
        """Whether all are within the tolerance."""
        return all(one.holds for one in self.points)


async def compare(
    bench: Bench, *, turns: int = TURNS, turn_s: float = TURN_S, windows: Sequence[int] = TURN_WINDOWS
) -> Finding:
    """Take turns, predict and compare."""
    runs: dict[float, list[Went]] = {part: [] for part in PARTS}
    dice = random.Random()
    async with one_set(await asyncio.to_thread(bench.scratch, "check")) as one:
        calibration, stolen = Calibration(one, windows), Stolen()
        bench.say("what a SET carries")
        await calibration.sweep(turn_s)
        for number in range(turns):
            bench.say(f"turn {number + 1} of {turns}")
            sweep = await calibration.sweep(turn_s)
            service = sweep.service()
            carried = min(sweep.carried, service.capacity)
            for part, some in runs.items():
                bench.say(f"turn {number + 1} of {turns}, at {part:.0%} of {carried:,.0f} opens/s")
                some.append(Went(part * carried, service, await open_loop(one, part * carried, turn_s, dice)))
        taken = stolen.part()
        if not await fill.adds_up(one):
            raise InvariantBroken("paid_in_is_claimed", "the claims of the check do not add up")
    return Finding([_compared(part, turn_s, some) for part, some in runs.items()], taken)


def _compared(part: float, turn_s: float, runs: Sequence[Went]) -> Compared:
    found = [run.latencies_s for run in runs]
    said = [latency for seed, run in enumerate(runs) for latency in predicted(run.service, run.rate, turn_s, seed=seed)]
    seen = [latency for run in found for latency in run]
    p50, seen_p50, p99, seen_p99 = (queue.quantile(some, one) * 1e3 for one in (0.5, 0.99) for some in (said, seen))
    low, high = p99_range(found, random.Random(1))
    rate = statistics.median(run.rate for run in runs)
    return Compared(part, rate, p50, seen_p50, p99, seen_p99, (low * 1e3, high * 1e3))


def p99_range(runs: Sequence[Sequence[float]], dice: random.Random) -> tuple[float, float]:
    """Return between what the p99 of nine in ten draws of as many runs lies (bootstrap over whole runs)."""
    thin = [[ordered[len(ordered) * one // KEPT] for one in range(KEPT)] for ordered in map(sorted, runs) if ordered]
    drawn = [
        queue.quantile([latency for run in dice.choices(thin, k=len(thin)) for latency in run], 0.99)
        for _ in range(DRAWS)
    ]
    return queue.quantile(drawn, 0.05), queue.quantile(drawn, 0.95)


def predicted(service: queue.Service, rate: float, turn_s: float, *, walks: int = WALKS, seed: int = 1) -> list[float]:
    """Return the latencies that the model says `open_loop` meets in so many turns at `rate`, in seconds."""
    dice = random.Random(seed)
    latencies: list[float] = []
    for _ in range(walks):
        arrivals = list(_late(lumps(rate, WARM_UP_S + turn_s, dice), dice))
        warm = sum(due < WARM_UP_S for _, due in arrivals)
        whole = [latency for batch in queue.walk(service, arrivals, dice) for latency in batch.latencies_s]
        latencies += whole[warm:]
    return latencies


def _late(lumps: Iterable[tuple[float, int]], dice: random.Random) -> Iterator[queue.Arrival]:
    """Return when opens reach the server, and when they were due."""
    reached = 0.0
    for due, count in lumps:
        reached = max(reached, due + dice.uniform(-TIMER_S / 2, TIMER_S / 2))
        for _ in range(count):
            yield reached, due
