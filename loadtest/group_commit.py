"""The model of one SET: how long an open waits for its group commit at a given rate.

A SET serves in batches: opens that arrive while a transaction runs go into the next one together. A batch of n takes
S(n) = a + b n. At r opens a second batches settle where one brings as many opens as the next one takes: n = r T and
T = a + b r T, hence

    T = a / (1 - r b)            the usual batch (and a + b where opens come one by one)
    p50 = 1.5 T                  an open waits for the rest of the batch in flight, T / 2 on average, then for its own
    p99 = 2 T + s (1 + r b)      nearly all of the batch in flight, its own, and the stall that one open in 100 meets

A stall is whatever delays a batch by time and not by its size: the disk, the host, the event loop, the sender's timer.
One of length s delays the opens that meet it by s and by the claims that gather meanwhile, r s of them at b each. s is
measured: what it must be for the p99 of opens sent at a known rate. The model holds between a fifth and four fifths of
the capacity and says nothing of a queue that grows. `./run plan --check` compares it with runs that it has not seen
(docs/capacity.md).
"""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from errors import Refused

CLASS_LEAST = 20
"""A class of batches of like size counts in the fit from so many on: a few odd ones could turn the line."""

Batch = tuple[int, float]
"""Claims, and seconds from gathering them to the last reply."""


@dataclass(frozen=True)
class Latency:
    """What an open meets inside the SET, in seconds."""

    p50_s: float
    p99_s: float


@dataclass(frozen=True)
class GroupCommit:
    """A batch of n takes `fixed_s + per_row_s * n`, n at most `most`; one open in 100 meets a stall of `stall_s`."""

    fixed_s: float
    per_row_s: float
    most: int
    stall_s: float = 0.0

    def batch_s(self, rows: float) -> float:
        """Return how long a batch of `rows` usually takes."""
        return self.fixed_s + self.per_row_s * rows

    @property
    def capacity(self) -> float:
        """Opens a second at which the queue begins to grow without end: every batch is as large as one may be."""
        return self.most / self.batch_s(self.most)

    def settled_s(self, rate: float) -> float:
        """Return the length T of a batch at `rate` opens a second.

        Raises Refused at or above the capacity, where no length is steady.
        """
        if not 0 < rate < self.capacity:
            raise Refused(
                "rate_unsteady", f"{rate:,.0f} opens/s is not between 0 and the capacity, {self.capacity:,.0f}"
            )
        return max(self.batch_s(1), self.fixed_s / (1 - rate * self.per_row_s))

    def latency(self, rate: float) -> Latency:
        """Predict the latency of opens that arrive at random; raises Refused at or above the capacity."""
        batch_s = self.settled_s(rate)
        in_flight = min(1.0, rate * batch_s)  # the chance that an open finds a batch in flight
        stalled_s = self.stall_s * (1 + rate * self.per_row_s)
        return Latency(batch_s * (1 + in_flight / 2), batch_s * (1 + in_flight) + stalled_s)


def fit(batches: Iterable[Batch], most: int, seen: Iterable[tuple[float, Sequence[float]]] = ()) -> GroupCommit:
    """Fit a SET to measured batches, and its stall to what opens met: (rate, latencies in seconds) for each load.

    Batches are put into classes of like size (a factor of the square root of 2). The line goes through the classes'
    medians by least squares on the relative error, so that slow batches do not move it and small batches, which are
    many, do not outweigh large ones. Raises Refused where all batches are of one size.
    """
    line = _line(_classes(batches), most)
    stalls = [
        (quantile(latencies, 0.99) - line.latency(rate).p99_s) / (1 + rate * line.per_row_s)
        for rate, latencies in seen
        if rate < line.capacity
    ]
    return replace(line, stall_s=max(0.0, statistics.median(stalls))) if stalls else line


def _classes(batches: Iterable[Batch]) -> list[tuple[float, float]]:
    """Return (mean rows, median seconds) of each class."""
    classes: dict[int, list[Batch]] = {}
    for rows, seconds in batches:
        classes.setdefault(int(math.log2(rows) * 2), []).append((rows, seconds))
    large = [some for some in classes.values() if len(some) >= CLASS_LEAST]
    counted = large if len(large) > 1 else list(classes.values())
    return [
        (statistics.fmean(rows for rows, _ in some), statistics.median(seconds for _, seconds in some))
        for some in counted
    ]


def _line(points: Sequence[tuple[float, float]], most: int) -> GroupCommit:
    if len(points) < 2:  # noqa: PLR2004 - a line
        raise Refused("too_few_batches", "the service time of a batch cannot be fitted: all batches were of one size")
    # Each point weighs 1 / seconds²: the sum of the squares of the relative errors is the least.
    weights = [1 / seconds**2 for _, seconds in points]
    whole = sum(weights)
    mean_rows = sum(weight * rows for weight, (rows, _) in zip(weights, points, strict=True)) / whole
    mean_s = sum(weight * seconds for weight, (_, seconds) in zip(weights, points, strict=True)) / whole
    spread = sum(weight * (rows - mean_rows) ** 2 for weight, (rows, _) in zip(weights, points, strict=True))
    lean = sum(
        weight * (rows - mean_rows) * (seconds - mean_s)
        for weight, (rows, seconds) in zip(weights, points, strict=True)
    )
    per_row = max(1e-7, lean / spread)
    return GroupCommit(max(1e-5, mean_s - per_row * mean_rows), per_row, most)


def quantile(values: Iterable[float], part: float) -> float:
    """Return the value below which `part` of all lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]
