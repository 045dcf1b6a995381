"""Lets the model predict runs that it has not seen, and compares.

Question: is the p99 that the plan predicts the p99 that an open meets? Workload: forty turns inside one SET. In each
turn the SET works with fixed numbers of opens in flight and, open loop, at 20, 40, 60 and 80 % of what it then carried;
the model is fitted to that. Then opens are sent at 30, 50 and 70 %, 0.4 s each, loads that the model has not seen:
these it predicts. Each turn has a model of its own, because a shared machine changes every few seconds, and the median
turn is compared, as everywhere in the benchmark: the p99 of all turns together would be that of the two or three turns
in which the host took the cores away.

Sketch: seven measurements of 0.4 s and their envelopes a turn, 6 s; forty turns in four to five minutes. Ends with the
check of the money.
"""

import asyncio
import math
import random
import statistics
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from errors import InvariantBroken
from loadtest.bench import fill
from loadtest.bench.arrivals import open_loop
from loadtest.bench.commits import WINDOWS, Calibration
from loadtest.bench.figures import Bench
from loadtest.bench.oneset import one_set
from loadtest.cpu_steal import CpuSteal
from loadtest.group_commit import GroupCommit, Latency, quantile

PARTS: Final = (0.3, 0.5, 0.7)
"""Loads that are predicted: none of those that the model is fitted to."""
TOLERANCE: Final = 0.3
TURNS, TURN_S = 40, 0.4
LARGEST_WINDOW: Final = 600
"""Opens in flight while the model is fitted, at most: at the loads that are compared batches are no larger."""
TURN_WINDOWS: Final = tuple(window for window in WINDOWS if window <= LARGEST_WINDOW)
RATES: Final = 15
"""What a SET carries is the median of so many measurements with most in flight, those of the last five turns."""


@dataclass(frozen=True)
class Compared:
    """One load: the medians of the turns. `off` is predicted p99 over seen p99, less one."""

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


@dataclass(frozen=True)
class Turn:
    """One load of one turn: what the model fitted just before predicted, and what opens met, in seconds."""

    rate: float
    predicted: Latency
    seen: Latency


@dataclass(frozen=True)
class Finding:
    """All loads, and the part of the cores' time that the host gave to others meanwhile."""

    points: list[Compared]
    stolen: float

    @property
    def holds(self) -> bool:
        """Whether all loads are within the tolerance."""
        return all(one.holds for one in self.points)


async def compare(
    bench: Bench, *, turns: int = TURNS, turn_s: float = TURN_S, windows: Sequence[int] = TURN_WINDOWS
) -> Finding:
    """Take turns, predict and compare; raises InvariantBroken where the claims do not add up at the end."""
    seen: dict[float, list[Turn]] = {part: [] for part in PARTS}
    dice = random.Random()
    async with one_set(await asyncio.to_thread(bench.scratch, "check")) as one:
        calibration, steal = Calibration(one, windows), CpuSteal()
        bench.say("what a SET carries")
        rates = deque((await calibration.sweep(turn_s)).rates[windows[-1]], maxlen=RATES)
        for number in range(turns):
            bench.say(f"turn {number + 1} of {turns}")
            sweep = await calibration.sweep(turn_s)
            rates.extend(sweep.rates[windows[-1]])
            model, carried = sweep.model(), statistics.median(rates)
            for part, some in seen.items():
                rate = part * carried
                bench.say(f"turn {number + 1} of {turns}, at {part:.0%} of {carried:,.0f} opens/s")
                latencies = await open_loop(one, rate, turn_s, dice)
                some.append(Turn(rate, predicted(model, rate), _met(latencies)))
        stolen = steal.part()
        if not await fill.adds_up(one):
            raise InvariantBroken("paid_in_is_claimed", "the claims of the check do not add up")
    return Finding([compared(part, some) for part, some in seen.items()], stolen)


def predicted(model: GroupCommit, rate: float) -> Latency:
    """Return what the model says: infinite in a turn so slow that its queue would grow, one end of the median."""
    return model.latency(rate) if rate < model.capacity else Latency(math.inf, math.inf)


def _met(latencies: Sequence[float]) -> Latency:
    return Latency(quantile(latencies, 0.5), quantile(latencies, 0.99))


def compared(part: float, turns: Sequence[Turn]) -> Compared:
    """Return the medians of the turns at one load."""
    return Compared(
        part,
        statistics.median(one.rate for one in turns),
        statistics.median(one.predicted.p50_s for one in turns) * 1e3,
        statistics.median(one.seen.p50_s for one in turns) * 1e3,
        statistics.median(one.predicted.p99_s for one in turns) * 1e3,
        statistics.median(one.seen.p99_s for one in turns) * 1e3,
    )
