"""Lets the model predict runs it has not seen, and compares.

Question: is the p99 that the model says the p99 that an open meets? Workload: what one SET carries is found first.
Then, fifty times over, it works with fixed numbers of opens in flight, two or three seconds, from which the model is
fitted, and open loop at 30, 50 and 70 % of what it carries, 0.4 s each, opens arriving at random in lumps of a
millisecond, which is how a gateway's frames arrive; the latency counts from the instant at which an open was to be
sent, so that a sender that is late makes the figures worse and not better. The turns are short and many because a
shared machine is another one every few seconds: a model that was fitted in a quiet minute says nothing about the next,
and neither does what it carried then. So each turn's load is a part of what the SET carried in the turns until then.
All turns of a kind are put together, predicted and seen alike, and what is seen comes with the interval in which nine
of ten draws of as many turns lie: a p99 is a few stalls.

What is predicted is the same experiment: turns that begin with an empty queue, lumps, and a timer that rings up to half
a millisecond early or late. Ends with the money, like everything here.
"""

import asyncio
import itertools
import random
import statistics
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from envelope.errors import InvariantBroken
from loadtest.bench import fill
from loadtest.bench.commits import WINDOWS, Calibration
from loadtest.bench.figures import Bench
from loadtest.bench.growth.alive import wake
from loadtest.bench.growth.size import SHARES
from loadtest.bench.oneset import OneSet, one_set
from loadtest.plan import queue
from loadtest.stolen import Stolen
from wire.messages import Op
from wire.server import Peer

PARTS: Final = (0.3, 0.5, 0.7)
TOLERANCE: Final = 0.3
LUMP_S: Final = 0.001
TIMER_S: Final = 0.001
"""A loop's timer (libuv's) rings at a whole millisecond, the nearest."""
CALIBRATE_S, TURNS, TURN_S = 8.0, 50, 0.4
TURN_WINDOWS: Final = tuple(window for window in WINDOWS if window <= 600)  # noqa: PLR2004 - as large as batches come
DRAWS: Final = 200
KEPT: Final = 500
"""Latencies of a turn that a draw looks at, evenly from the shortest to the longest."""
WALKS: Final = 10 * TURNS
"""Turns that are predicted: ten times as many as are run, for stalls are rare."""
FEW_TURNS: Final = 5
"""After every so many it is asked anew what a SET carries; until the first the eight seconds before them say it."""
WARM_UP_S = 0.05
SETTLE_S = 10.0


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
    """One turn, open loop."""

    rate: float
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


async def compare(
    bench: Bench,
    *,
    calibrate_s: float = CALIBRATE_S,
    turns: int = TURNS,
    turn_s: float = TURN_S,
    windows: Sequence[int] = WINDOWS,
) -> Finding:
    """Find out what the SET carries, take turns, predict and compare."""
    seen: dict[float, list[Went]] = {part: [] for part in PARTS}
    dice = random.Random()
    async with one_set(await asyncio.to_thread(bench.scratch, "check")) as one:
        bench.say("what a SET carries")
        first = Calibration(one, windows)
        await first.sweep(calibrate_s)
        carried = _carried(first)
        # Fitted anew, to what came between the runs: noise that comes and goes meets the model as it meets the runs.
        calibration, stolen = Calibration(one, [one for one in windows if one in TURN_WINDOWS]), Stolen()
        for number in range(turns):
            bench.say(f"turn {number + 1} of {turns}, at 30, 50 and 70 % of some {carried:,.0f} opens/s")
            await calibration.sweep(turn_s)
            if number % FEW_TURNS == FEW_TURNS - 1:
                carried = _carried(calibration)
            for part, runs in seen.items():
                rate = part * carried
                runs.append(Went(rate, await open_loop(one, rate, turn_s, dice)))
        taken = stolen.part()
        if not await fill.adds_up(one):
            raise InvariantBroken("paid_in_is_claimed", "the claims of the check do not add up")
    service = calibration.service()
    return Finding([_compared(service, part, turn_s, runs) for part, runs in seen.items()], taken)


def _carried(calibration: Calibration) -> float:
    """Return the opens/s that both what was seen and what was fitted to it say a SET carries."""
    return min(calibration.carried, calibration.service().capacity)


def _compared(service: queue.Service, part: float, turn_s: float, runs: Sequence[Went]) -> Compared:
    rates, found = [run.rate for run in runs], [run.latencies_s for run in runs]
    said, seen = predicted(service, rates, turn_s), [latency for run in found for latency in run]
    p50, seen_p50, p99, seen_p99 = (queue.quantile(some, one) * 1e3 for one in (0.5, 0.99) for some in (said, seen))
    low, high = p99_range(found, random.Random(1))
    return Compared(part, statistics.median(rates), p50, seen_p50, p99, seen_p99, (low * 1e3, high * 1e3))


def p99_range(runs: Sequence[Sequence[float]], dice: random.Random) -> tuple[float, float]:
    """Return between what the p99 of nine in ten draws of as many runs lies (bootstrap over whole runs)."""
    thin = [[ordered[len(ordered) * one // KEPT] for one in range(KEPT)] for ordered in map(sorted, runs) if ordered]
    drawn = [
        queue.quantile([latency for run in dice.choices(thin, k=len(thin)) for latency in run], 0.99)
        for _ in range(DRAWS)
    ]
    return queue.quantile(drawn, 0.05), queue.quantile(drawn, 0.95)


def predicted(
    service: queue.Service, rates: Sequence[float], turn_s: float, *, turns: int = WALKS, seed: int = 1
) -> list[float]:
    """Return the latencies that the model says `open_loop` meets in so many turns at `rates`, in seconds."""
    dice = random.Random(seed)
    latencies: list[float] = []
    for rate in itertools.islice(itertools.cycle(rates), turns):
        arrivals = list(_late(_lumps(rate, WARM_UP_S + turn_s, dice), dice))
        warm = sum(due < WARM_UP_S for _, due in arrivals)
        whole = [latency for batch in queue.walk(service, arrivals, dice) for latency in batch.latencies_s]
        latencies += whole[warm:]
    return latencies


async def open_loop(one: OneSet, rate: float, seconds: float, dice: random.Random) -> list[float]:
    """Send opens at `rate`, whatever comes back; returns the latencies of those sent after the warm-up, in seconds."""
    lumps = list(_lumps(rate, WARM_UP_S + seconds, dice))
    ids = await wake(one, sum(count for _, count in lumps) // SHARES + 1)
    opens = ((envelope_id, f"user-{user}") for user in range(SHARES) for envelope_id in ids)
    peer, number, cold = Timed(), 0, 0
    begun = time.perf_counter()
    for after, count in lumps:
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


def _lumps(rate: float, seconds: float, dice: random.Random) -> Iterator[tuple[float, int]]:
    """Return (instant, how many opens are due then), for a Poisson process seen once a lump."""
    for lump in range(int(seconds / LUMP_S)):
        yield lump * LUMP_S, _poisson(dice, rate * LUMP_S)


def _late(lumps: Iterable[tuple[float, int]], dice: random.Random) -> Iterator[queue.Arrival]:
    """Return when opens reach the server, and when they were due."""
    reached = 0.0
    for due, count in lumps:
        reached = max(reached, due + dice.uniform(-TIMER_S / 2, TIMER_S / 2))
        for _ in range(count):
            yield reached, due


def _poisson(dice: random.Random, mean: float) -> int:
    """Draw how many arrive: count exponential gaps until one lump is over."""
    count, left = 0, dice.expovariate(1.0)
    while left < mean:
        count += 1
        left += dice.expovariate(1.0)
    return count
