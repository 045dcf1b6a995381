"""What one group commit costs, by its size: in time, log and disk.

Question: how long does a transaction of n claims take, from gathering to the last answer, and what does a claim leave
behind? Workload: opens inside one SET, round robin over many envelopes, with 1 to 8,000 in flight, so that batches of
every size come. Sketch: fixed 2 ms (two turns of the loop, round trips, fsync), 15 µs a claim; 250 bytes of log and as
many of table and indexes. `loadtest.plan` fits its model of a SET to these.
"""

import asyncio
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from loadtest.bench import fill, pictures
from loadtest.bench.figures import Bench, Figures, Row, Section
from loadtest.bench.growth.alive import wake
from loadtest.bench.growth.size import SHARES
from loadtest.bench.oneset import OneSet, fire, one_set
from loadtest.plan import queue
from setnode.batch import ClaimBatch
from setnode.limits import BATCH_ROWS

WINDOWS: Final = (1, 4, 16, 64, 200, 600, 2_000, 8_000)
KEPT_FACTORS = 200
_SIZES = (
    "SELECT coalesce(sum(pg_total_relation_size(relid)), 0)::bigint FROM pg_partition_tree($1::regclass) WHERE isleaf"
)


class Stopwatch:
    """Times every batch of a SET from the moment it is gathered until all in it are answered."""

    def __init__(self, one: OneSet) -> None:
        self.batches: list[tuple[int, float]] = []
        self._since: dict[int, float] = {}
        lane: Any = one.node.claim_lane
        self._gather, self._done = lane.gather, lane.done
        lane.gather, lane.done = self.gather, self.done

    def gather(self, skip: set[int]) -> ClaimBatch | None:
        """Stand before the lane's own."""
        started = time.perf_counter()
        batch: ClaimBatch | None = self._gather(skip)
        if batch is not None:
            self._since[id(batch)] = started
        return batch

    def done(self, batch: ClaimBatch, result: Any) -> None:
        """Stand before the lane's own."""
        self._done(batch, result)
        self.batches.append((len(batch), time.perf_counter() - self._since.pop(id(batch))))


async def calibrate(one: OneSet, *, seconds: float) -> Figures:
    """Let batches of all sizes come for about `seconds`; return the fitted service and what a claim costs."""
    watch = Stopwatch(one)
    ids: list[int] = []
    opened, lsn = 0, await one.scalar("SELECT pg_current_wal_lsn()")
    empty = [await one.scalar(_SIZES, table) for table in ("claim", "envelope")]
    rates = []
    for window in WINDOWS:
        until, best = time.perf_counter() + seconds / len(WINDOWS), 0.0
        while time.perf_counter() < until:
            # As many envelopes as are in flight: few open at once means few groups, many mean many.
            some = await wake(one, max(8, min(window, 2_000)))
            ids += some
            rate = await fire(one.node, ((one_id, f"user-{user}") for user in range(SHARES) for one_id in some), window)
            opened, best = opened + len(some) * SHARES, max(best, rate)
        rates.append({"in_flight": window, "opens_per_second": best})
    written = await one.scalar("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), $1)::bigint", lsn)
    full = [await one.scalar(_SIZES, table) for table in ("claim", "envelope")]
    service = queue.fit(watch.batches, BATCH_ROWS)
    claim, envelope = (now - before for now, before in zip(full, empty, strict=True))
    return {
        "fixed_ms": service.fixed_s * 1e3,
        "per_row_us": service.per_row_s * 1e6,
        "most": service.most,
        "factors": [queue.quantile(service.factors, (one + 0.5) / KEPT_FACTORS) for one in range(KEPT_FACTORS)],
        "batches": len(watch.batches),
        "opens_per_second": max(one["opens_per_second"] for one in rates),
        "rates": rates,
        "wal_bytes_per_claim": written / opened,
        "disk_bytes_per_claim": claim / opened,
        "disk_bytes_per_envelope": envelope / len(ids),
    }


async def measure(bench: Bench, *, seconds: float) -> Figures:
    """Calibrate a SET of its own."""
    async with one_set(await asyncio.to_thread(bench.scratch, "commit")) as one:
        found = await calibrate(one, seconds=seconds)
        bench.audit("commit", holds=await fill.adds_up(one))
    return found


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
