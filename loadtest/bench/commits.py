"""What one group commit costs, by its size: in time, log and disk.

Question: how long does a transaction of n claims take, from gathering (or from the end of the one before it, where two
overlap) to the last answer, and what does a claim leave behind? Workload: opens inside one SET, round robin over many
envelopes, with 1 to 4,000 in flight, so that batches of every size come; then at random, at 20 to 80 % of what was
carried, for a loop that reads what arrives beside a transaction is slower. Sketch: fixed 2 ms (two turns of the loop,
round trips, fsync), 15 µs a claim; 250 bytes of log and as many of table and indexes. `loadtest.plan` fits its model
of a SET to these.
"""

import asyncio
import random
import statistics
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from loadtest.bench import fill, pictures
from loadtest.bench.arrivals import Overrun, open_loop
from loadtest.bench.figures import Bench, Figures, Row, Section
from loadtest.bench.growth.alive import wake
from loadtest.bench.growth.size import SHARES
from loadtest.bench.oneset import OneSet, fire, one_set, round_robin
from loadtest.group_commit import Batch, GroupCommit, fit
from setnode.actors.batch import ClaimBatch
from setnode.limits import BATCH_ROWS

WINDOWS: Final = (1, 4, 16, 64, 200, 600, 2_000, 4_000)
LOADS: Final = (0.2, 0.4, 0.6, 0.8)
LOAD_S: Final = 0.4
"""Least length of a measurement at one load."""
SLOWER: Final = 0.75
"""After a load under which the queue grew, this part of it is tried next."""
SLOWER_TIMES: Final = 3
WIDEST_TIMES: Final = 3
"""Least measurements with most in flight: their median is what the SET carries."""
WEIGHED_SLOTS = 4
FEWEST, LEAST_OPENS = 50, 2_000
"""Envelopes and opens of one measurement."""
_SIZE = (
    "SELECT coalesce(sum(pg_total_relation_size(relid)), 0)::bigint FROM pg_partition_tree($1::regclass) WHERE isleaf"
)


class Stopwatch:
    """Times every batch of a SET, inside `counting`, from gathering its claims to their last reply.

    Where two connections overlap, a batch counts from the end of the batch that ended before it, because the model
    knows one server: counted each from its own start, the two would seem to carry half. A failed batch is not counted.
    """

    def __init__(self, one: OneSet) -> None:
        self._batches: list[tuple[int, float]] | None = None
        self._in_flight = 0
        self._since = 0.0
        claims: Any = one.node.claim_queue
        self._next_batch, self._on_committed, self._on_failed = claims.next_batch, claims.on_committed, claims.on_failed
        claims.next_batch, claims.on_committed, claims.on_failed = self.next_batch, self.on_committed, self.on_failed

    @contextmanager
    def counting(self, batches: list[tuple[int, float]]) -> Iterator[None]:
        """Add (rows, seconds) of every batch that ends inside the block."""
        self._batches = batches
        try:
            yield
        finally:
            self._batches = None

    def next_batch(self, skip: set[int]) -> ClaimBatch | None:
        """Note when a batch is gathered (in place of the queue's method)."""
        started = time.perf_counter()
        batch: ClaimBatch | None = self._next_batch(skip)
        if batch is not None:
            if not self._in_flight:
                self._since = started
            self._in_flight += 1
        return batch

    def on_committed(self, batch: ClaimBatch, result: Any) -> None:
        """Add the batch to those counted (in place of the queue's method)."""
        self._on_committed(batch, result)
        since = self._ended()
        if self._batches is not None:
            self._batches.append((len(batch), self._since - since))

    def on_failed(self, batch: ClaimBatch, error: Exception) -> None:
        """Forget the batch (in place of the queue's method)."""
        self._on_failed(batch, error)
        self._ended()

    def _ended(self) -> float:
        """Note that a batch is no longer in flight; returns since when it counts."""
        since, self._since = self._since, time.perf_counter()
        self._in_flight -= 1
        return since


@dataclass
class Sweep:
    """What batches of all sizes took, in (rows, seconds), and what was carried meanwhile."""

    batches: list[Batch] = field(default_factory=list)
    rates: dict[int, list[float]] = field(default_factory=dict)
    """Opens a second, by how many were in flight."""
    loads: list[tuple[float, list[float]]] = field(default_factory=list)
    """Opens a second sent at random, and the latencies that they met, in seconds."""
    opened: int = 0
    written: int = 0
    """Bytes of log of the opens that were sent with a fixed number in flight."""

    def model(self) -> GroupCommit:
        """Return the SET's model, fitted to all of it."""
        return fit(self.batches, BATCH_ROWS, self.loads)

    @property
    def carried(self) -> float:
        """Opens a second at the number in flight that carried most."""
        return max(statistics.median(some) for some in self.rates.values())

    def figures(self) -> Figures:
        """Return the fitted model and what a claim costs."""
        model = self.model()
        return {
            "fixed_ms": model.fixed_s * 1e3,
            "per_row_us": model.per_row_s * 1e6,
            "most": model.most,
            "stall_ms": model.stall_s * 1e3,
            "batches": len(self.batches),
            "opens_per_second": self.carried,
            "rates": [
                {"in_flight": window, "opens_per_second": statistics.median(r)} for window, r in self.rates.items()
            ],
            "wal_bytes_per_claim": self.written / self.opened,
        }


class Calibration:
    """Measures batches of all sizes, with `windows` of opens in flight and at `loads` of what the SET carries.

    Both, because opens that come whether earlier ones were answered or not cost more: the loop reads them while a
    transaction runs.
    """

    def __init__(self, one: OneSet, windows: Sequence[int] = WINDOWS, loads: Sequence[float] = LOADS) -> None:
        self._one = one
        self._windows = windows
        self._loads = loads
        self._watch = Stopwatch(one)
        self._dice = random.Random()

    async def sweep(self, seconds: float) -> Sweep:
        """Measure for about `seconds`, or for as long as one measurement of each size takes."""
        found, each = Sweep(), seconds / (len(self._windows) + len(self._loads))
        lsn = await self._one.scalar("SELECT pg_current_wal_lsn()")
        with self._watch.counting(found.batches):
            for window in self._windows:
                until = time.perf_counter() + each
                rates = found.rates[window] = []
                least = WIDEST_TIMES if window == self._windows[-1] else 1
                while len(rates) < least or time.perf_counter() < until:
                    rates.append(await self._fire(window, found))
            found.written = await self._one.scalar("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), $1)::bigint", lsn)
            for load in self._loads:
                found.loads.append(await self.send(load * found.carried, max(each, LOAD_S)))
        return found

    async def send(self, rate: float, seconds: float) -> tuple[float, list[float]]:
        """Send opens at `rate`, or slower where that is more than is carried when they come by themselves.

        Returns the rate that was carried and the latencies in seconds.

        Batches measured while the queue grew are kept. Raises Overrun where four tenths of the rate are still too much.
        """
        for _ in range(SLOWER_TIMES):
            try:
                return rate, await open_loop(self._one, rate, seconds, self._dice)
            except Overrun:
                rate *= SLOWER
        return rate, await open_loop(self._one, rate, seconds, self._dice)

    async def _fire(self, window: int, found: Sweep) -> float:
        # As many envelopes as opens in flight: each open of a batch is for another envelope, which costs most.
        some = await wake(self._one, max(FEWEST, window))
        shares = min(SHARES, max(4, LEAST_OPENS // len(some)))
        found.opened += len(some) * shares
        return await fire(self._one.node, round_robin(some, shares), window)


async def weigh_rows(one: OneSet, claims: int) -> Figures:
    """Return bytes of disk, indexes included, of a claim and of a header.

    Measured in a few tables of tens of thousands of rows; most of a small table is pages allocated and not yet used.
    """
    before = [await one.scalar(_SIZE, table) for table in ("claim", "envelope")]
    filled = await fill.fill_days(one, claims, days=1, shares=SHARES, slots=range(WEIGHED_SLOTS))
    after = [await one.scalar(_SIZE, table) for table in ("claim", "envelope")]
    claim, envelope = (now - old for now, old in zip(after, before, strict=True))
    return {"disk_bytes_per_claim": claim / filled, "disk_bytes_per_envelope": envelope * SHARES / filled}


async def measure(bench: Bench, *, seconds: float, windows: Sequence[int] = WINDOWS, claims: int = 200_000) -> Figures:
    """Measure the commits and the rows of a SET of its own, within about `seconds`."""
    async with one_set(await asyncio.to_thread(bench.scratch, "commit")) as one:
        sweep = await Calibration(one, windows).sweep(seconds)
        bench.say("what a row weighs")
        rows = await weigh_rows(one, claims)
        bench.audit("commit", holds=await fill.adds_up(one))
    return {**sweep.figures(), **rows}


async def _measure(bench: Bench) -> Figures:
    return await measure(bench, seconds=8 if bench.quick else 40)


def _rows(figures: Figures) -> Iterable[Row]:
    line = f"{figures['fixed_ms']:.1f} ms + {figures['per_row_us']:.0f} µs a claim"
    yield Row("one group commit", line, f"fitted to {figures['batches']:,} batches of up to {figures['most']:,}")
    disk = f"{figures['disk_bytes_per_claim']:.0f} bytes of table and indexes"
    yield Row("a claim leaves", f"{figures['wal_bytes_per_claim']:.0f} bytes of log", disk)


def _plots(figures: Figures, folder: Path) -> Sequence[str]:
    words = pictures.Axes("Opens a second by opens in flight, one SET", "in flight", "opens/s", log=True)
    rates = [one["opens_per_second"] for one in figures["rates"]]
    return (
        pictures.lines(folder / "commit.svg", words, [one["in_flight"] for one in figures["rates"]], {"SET": rates}),
    )


SECTION: Final = Section("commit", "a group commit by its size: time, log, disk", _measure, _rows, _plots)
