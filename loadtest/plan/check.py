"""Lets the model predict runs it has not seen, and compares.

Question: is the p99 that the model says the p99 that an open meets? Workload: forty turns inside one SET. In each it
works with fixed numbers of opens in flight and at 20, 40, 60 and 80 % of what it then carried; the model is fitted to
that. Then it works at 30, 50 and 70 %, 0.4 s each, which the model has not seen: these it predicts. A model of its own
for each turn, because a shared machine is another one every few seconds: put together, the quick turns' rates would
meet the slow turns' batches. What is compared is the median turn's p99, as in all of this benchmark, with what is
seen the interval in which nine of ten draws of as many turns lie: put together, the p99 would be that of the two or
three turns in which the host looked away.

What is predicted is the same experiment: turns that begin with an empty queue, lumps, and a timer that rings up to half
a millisecond early or late. Ends with the money, like everything here.
"""

import asyncio
import random
import statistics
from collections import deque
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
QUANTILES: Final = (0.5, 0.99)
RATES: Final = 15
"""What a SET carries is the median of so many measurements with most in flight, those of the last five turns."""
DRAWS: Final = 200
WALKS: Final = 10
"""Turns that are predicted for each that is run."""


@dataclass(frozen=True)
class Compared:
    """One load, the median turn of each; `off` is predicted p99 over seen p99, less one.

    The range holds nine of ten draws of the turns.
    """

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
        rates = deque((await calibration.sweep(turn_s)).rates[windows[-1]], maxlen=RATES)
        for number in range(turns):
            bench.say(f"turn {number + 1} of {turns}")
            sweep = await calibration.sweep(turn_s)
            rates.extend(sweep.rates[windows[-1]])
            service, carried = sweep.service(), statistics.median(rates)
            for part, some in runs.items():
                bench.say(f"turn {number + 1} of {turns}, at {part:.0%} of {carried:,.0f} opens/s")
                some.append(Went(part * carried, service, await open_loop(one, part * carried, turn_s, dice)))
        taken = stolen.part()
        if not await fill.adds_up(one):
            raise InvariantBroken("paid_in_is_claimed", "the claims of the check do not add up")
    return Finding([_compared(part, turn_s, some) for part, some in runs.items()], taken)


def _compared(part: float, turn_s: float, runs: Sequence[Went]) -> Compared:
    said = [walk for seed, run in enumerate(runs) for walk in predicted(run.service, run.rate, turn_s, seed=seed)]
    seen = [run.latencies_s for run in runs]
    p50, p99 = (usual(said, one) * 1e3 for one in QUANTILES)
    seen_p50, seen_p99 = (usual(seen, one) * 1e3 for one in QUANTILES)
    low, high = p99_range(seen, random.Random(1))
    rate = statistics.median(run.rate for run in runs)
    return Compared(part, rate, p50, seen_p50, p99, seen_p99, (low * 1e3, high * 1e3))


def usual(turns: Iterable[Sequence[float]], part: float) -> float:
    """Return the median of the turns' own quantiles."""
    return statistics.median(queue.quantile(turn, part) for turn in turns if turn)


def p99_range(turns: Sequence[Sequence[float]], dice: random.Random) -> tuple[float, float]:
    """Return between what the p99 of nine in ten draws of as many turns lies (bootstrap over whole turns)."""
    p99s = [queue.quantile(turn, 0.99) for turn in turns if turn]
    drawn = [statistics.median(dice.choices(p99s, k=len(p99s))) for _ in range(DRAWS)]
    return queue.quantile(drawn, 0.05), queue.quantile(drawn, 0.95)


def predicted(
    service: queue.Service, rate: float, turn_s: float, *, walks: int = WALKS, seed: int = 1
) -> Iterator[list[float]]:
    """Return the latencies that the model says `open_loop` meets in each of so many turns at `rate`, in seconds."""
    dice = random.Random(seed)
    for _ in range(walks):
        arrivals = list(_late(lumps(rate, WARM_UP_S + turn_s, dice), dice))
        warm = sum(due < WARM_UP_S for _, due in arrivals)
        whole = [latency for batch in queue.walk(service, arrivals, dice) for latency in batch.latencies_s]
        yield whole[warm:]


def _late(lumps: Iterable[tuple[float, int]], dice: random.Random) -> Iterator[queue.Arrival]:
    """Return when opens reach the server, and when they were due."""
    reached = 0.0
    for due, count in lumps:
        reached = max(reached, due + dice.uniform(-TIMER_S / 2, TIMER_S / 2))
        for _ in range(count):
            yield reached, due
