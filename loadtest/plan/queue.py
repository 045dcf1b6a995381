"""Group commit as a queue: how long an open waits at a given rate.

A SET serves in batches. Opens that arrive while a transaction runs wait for its end and go into the next one together,
up to `most`; a batch of n takes S(n) = fixed + per_row * n, times a factor that varies, drawn from what was measured at
batches of like size, and longer by the stalls that fall into it. A stall is the disk or the host looking away: it comes
with time of service and not with batches, so one of 5 ms meets five times as many as one of 1 ms. That is a
bulk-service queue, M/G^[1,most]/1 with a service time that depends on the size of the batch: Bailey, "On queueing
processes with bulk service" (J. R. Statist. Soc. B 16, 1954); Neuts, "A general class of bulk queues with Poisson
input" (Ann. Math. Statist. 38, 1967), whose embedded Markov chain, the queue at the ends of service, is walked here.

Derivation. Let q be the number waiting when a service ends. It takes n = min(q, most); where q = 0 the server waits
for the next arrival and takes it alone, n = 1. During S(n) a Poisson number arrives: q' = q - n + Poisson(rate *
S(n)). The stationary distribution of q follows by iterating that. An open that arrives u into a service waits what is
left of it, then for the batches of those before it (none, unless more than `most` wait), then for its own, and is
answered at its end. Without variation and far from the limits batches settle at n* = rate * fixed / (1 - rate *
per_row), all of length T = fixed / (1 - rate * per_row), and the latency is uniform between T and 2 T: p50 = 1.5 T,
p99 = 1.99 T. The server is saturated at `most` / S(most); a utilisation of 50 % is half of that rate.
"""

import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from envelope.errors import Refused

OPENS, BATCHES, MOST_OPENS = 40_000, 6_000, 800_000
"""A prediction rests on so many opens in so many batches: slow batches are rare, and all opens in one meet the same."""
STALLS = 200
"""And on so many stalls, as far as MOST_OPENS allow: they are rarer still and make the p99."""
WARM_UP = 2_000
SPREAD_LEAST = 150
"""A spread rests on so many batches of like size: the scheduler makes small ones vary more than large ones."""
CLASS_LEAST = 20
"""And the line on classes of at least so many."""
STALL_S = 0.003
"""A batch that takes twice as long as others of its size, and by this much longer, met a stall; less is variation."""
SHORT_S = 2 * STALL_S
"""Only batches that usually take no longer show their stalls: of the others the factors hold all that happens."""
QUANTILES = (0.5, 0.9, 0.99)

Spread = tuple[int, Sequence[float]]
"""From so many rows on, until the next one's: factors, equally likely."""

Arrival = tuple[float, float]
"""When an open reaches the server, and the instant from which its latency counts; in the order of the first."""


@dataclass(frozen=True)
class Stalls:
    """Stalls come at random, `per_s` in a second of service, each one of `lengths_s`, equally likely."""

    per_s: float
    lengths_s: Sequence[float]

    @property
    def part(self) -> float:
        """How much longer service is with them, as a part of itself."""
        return self.per_s * sum(self.lengths_s) / max(1, len(self.lengths_s))

    def within(self, seconds: float, dice: random.Random) -> Iterator[float]:
        """Draw those that fall into a service of `seconds`."""
        if not self.lengths_s or self.per_s <= 0:
            return
        left = seconds - dice.expovariate(self.per_s)
        while left > 0:
            yield dice.choice(self.lengths_s)
            left -= dice.expovariate(self.per_s)


NO_STALLS = Stalls(0.0, ())


@dataclass(frozen=True)
class Service:
    """What a batch of n costs: `fixed_s + per_row_s * n`, times a factor drawn from those of its size, and `stalls`.

    The first of `spreads` begins at one row; all factors together have the mean 1.
    """

    fixed_s: float
    per_row_s: float
    most: int
    spreads: Sequence[Spread] = ((1, (1.0,)),)
    stalls: Stalls = NO_STALLS

    def mean_s(self, rows: float) -> float:
        """Return the line: how long a batch of `rows` takes before factor and stalls."""
        return self.fixed_s + self.per_row_s * rows

    def factors(self, rows: int) -> Sequence[float]:
        """Return the factors for a batch of `rows`."""
        return next(factors for least, factors in reversed(self.spreads) if least <= max(1, rows))

    def draw(self, rows: int, dice: random.Random) -> tuple[float, int]:
        """Draw how long a batch of `rows` takes this time, in seconds, and how many stalls are in it."""
        length = self.mean_s(rows) * dice.choice(self.factors(rows))
        stalls = list(self.stalls.within(length, dice)) if self.stalls_show(rows) else ()
        return length + sum(stalls), len(stalls)

    @property
    def capacity(self) -> float:
        """Opens a second at which the queue begins to grow without end."""
        factors = self.factors(self.most)
        length = self.mean_s(self.most) * sum(factors) / len(factors)
        return self.most / (length * (1 + self.stalls.part) if self.stalls_show(self.most) else length)

    def stalls_show(self, rows: float) -> bool:
        """Say whether a batch of `rows` is so short that its stalls stand apart from its factors."""
        return self.mean_s(rows) <= SHORT_S


@dataclass(frozen=True)
class Served:
    """One batch: how long it took, the stalls in it, and the latency of each open that it answered."""

    seconds: float
    stalls: int
    latencies_s: list[float]


@dataclass(frozen=True)
class Latency:
    """What an open meets at `rate` a second; `cycle_s` is the mean length of a service, `rows` its mean size."""

    rate: float
    utilisation: float
    rows: float
    cycle_s: float
    p50_s: float
    p90_s: float
    p99_s: float


def fluid(service: Service, rate: float) -> tuple[float, float]:
    """Return (rows, seconds) of a batch in the steady state without variation: the closed form of the docstring."""
    _check(service, rate)
    cycle = service.fixed_s / (1 - rate * service.per_row_s)
    rows = max(1.0, rate * cycle)
    return rows, service.mean_s(1) if rows == 1.0 else cycle


def walk(service: Service, arrivals: Iterable[Arrival], dice: random.Random) -> Iterator[Served]:
    """Serve `arrivals` until there are no more.

    The embedded chain is walked, not inverted, because its service times may have any shape that was measured; of each
    service all opens that it answers are known with their instants of arrival.
    """
    coming = iter(arrivals)
    upcoming = next(coming, None)
    waiting: list[Arrival] = []
    now = 0.0
    while waiting or upcoming:
        if not waiting and upcoming:
            now = max(now, upcoming[0])
        while upcoming and upcoming[0] <= now:
            waiting.append(upcoming)
            upcoming = next(coming, None)
        batch, waiting = waiting[: service.most], waiting[service.most :]
        length, stalls = service.draw(len(batch), dice)
        now += length
        yield Served(length, stalls, [now - since for _, since in batch])


def predict(service: Service, rate: float, *, seed: int = 1) -> Latency:
    """Predict the latency of opens that arrive at random, `rate` a second, for ever.

    A seed makes it the same every time. Raises Refused where the rate is at or above the capacity: nothing is steady
    there.
    """
    _check(service, rate)
    dice = random.Random(seed)
    seen: list[float] = []
    warm = served = batches = stalls = 0
    busy, calm = 0.0, service.stalls.part <= 0 or not service.stalls_show(fluid(service, rate)[0])
    for one in walk(service, _poisson(rate, dice), dice):
        served += len(one.latencies_s)
        if served <= WARM_UP:
            warm = served
            continue
        seen.extend(one.latencies_s)
        batches, busy, stalls = batches + 1, busy + one.seconds, stalls + one.stalls
        enough = batches >= BATCHES and (stalls >= STALLS or calm)
        if len(seen) >= OPENS and (enough or len(seen) >= MOST_OPENS):
            break
    p50, p90, p99 = (quantile(seen, one) for one in QUANTILES)
    return Latency(rate, rate / service.capacity, (served - warm) / batches, busy / batches, p50, p90, p99)


def _poisson(rate: float, dice: random.Random) -> Iterator[Arrival]:
    now = 0.0
    while True:
        now += dice.expovariate(rate)
        yield now, now


def fit(batches: Sequence[tuple[int, float]], most: int) -> Service:
    """Fit a service to measured (rows, seconds).

    Least squares on the relative error of the medians of classes of like size, every class alike: one slow batch in
    a hundred moves the factors, where it belongs, and not the line, and a class does not count more because its
    batches are small and many. One of a few batches has no voice in the line: far out, a single one could turn it.
    What a stalled batch has over the median of its class is a stall, and it counts as that median otherwise, as far as
    batches are short enough to show it. Raises Refused where all batches are of one size.
    """
    classes: dict[int, list[tuple[int, float]]] = {}
    for rows, seconds in batches:
        classes.setdefault(int(math.log2(rows) * 2), []).append((rows, seconds))
    medians = {number: quantile([seconds for _, seconds in some], 0.5) for number, some in classes.items()}
    short = [number for number, usual in medians.items() if usual <= SHORT_S]
    stalls = _stalls([(seconds, medians[number]) for number in short for _, seconds in classes[number]])
    for number in short:
        usual = medians[number]
        classes[number] = [(rows, usual if _stalled(took, usual) else took) for rows, took in classes[number]]
    if len(classes) < 2:  # noqa: PLR2004 - a line
        raise Refused("too_few_batches", "the service time of a batch cannot be fitted: all batches were of one size")
    known = {number: some for number, some in classes.items() if len(some) >= CLASS_LEAST}
    voters = known if len(known) > 1 else classes
    points = [(sum(rows for rows, _ in some) / len(some), medians[number]) for number, some in voters.items()]
    weights = [1 / seconds**2 for _, seconds in points]
    whole = sum(weights)
    mean_rows = sum(w * rows for w, (rows, _) in zip(weights, points, strict=True)) / whole
    mean_s = sum(w * seconds for w, (_, seconds) in zip(weights, points, strict=True)) / whole
    spread = sum(w * (rows - mean_rows) ** 2 for w, (rows, _) in zip(weights, points, strict=True))
    lean = sum(w * (rows - mean_rows) * (seconds - mean_s) for w, (rows, seconds) in zip(weights, points, strict=True))
    per_row = max(1e-7, lean / spread)
    fixed = max(1e-5, mean_s - per_row * mean_rows)
    ratios = {
        number: [seconds / (fixed + per_row * rows) for rows, seconds in some] for number, some in classes.items()
    }
    mean = sum(map(sum, ratios.values())) / len(batches)
    # Never across the border: on this side the factors have no stalls in them, on that side they have.
    groups = [number for number in classes if number in short], [number for number in classes if number not in short]
    found = [one for group in groups for one in _gathered({number: classes[number] for number in group}, ratios)]
    spreads = [
        (least if place else 1, sorted(one / mean for one in some)) for place, (least, some) in enumerate(sorted(found))
    ]
    return Service(fixed * mean, per_row * mean, most, spreads, stalls)


def _stalled(took: float, usual: float) -> bool:
    return took - usual > max(STALL_S, usual)


def _stalls(batches: Sequence[tuple[float, float]]) -> Stalls:
    """Count the stalls in batches of (seconds, usual seconds)."""
    lengths = sorted(took - usual for took, usual in batches if _stalled(took, usual))
    served = sum(took for took, _ in batches) - sum(lengths)
    return Stalls(len(lengths) / served, lengths) if lengths else NO_STALLS


def _gathered(
    classes: Mapping[int, Sequence[tuple[int, float]]], ratios: Mapping[int, Sequence[float]]
) -> list[tuple[int, list[float]]]:
    """Put classes of like size together, the smallest first, until each spread has enough batches."""
    found: list[tuple[int, list[float]]] = []
    for number in sorted(classes):
        if found and len(found[-1][1]) < SPREAD_LEAST:
            found[-1][1].extend(ratios[number])
        else:
            found.append((min(rows for rows, _ in classes[number]), list(ratios[number])))
    if len(found) > 1 and len(found[-1][1]) < SPREAD_LEAST:
        _, last = found.pop()
        found[-1][1].extend(last)
    return found


def quantile(values: Sequence[float], part: float) -> float:
    """Return the value below which `part` of all lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def _check(service: Service, rate: float) -> None:
    if rate <= 0 or rate >= service.capacity:
        raise Refused(
            "rate_unsteady", f"{rate:,.0f} opens/s is not between 0 and the capacity, {service.capacity:,.0f}"
        )
