"""Section (c): how many connections a pessimistic lock wants, and where our admission cap sits on that curve.

Question: what do more connections give, and what do they cost? Workload: 100 opens in flight, over 1 to 100
connections, at one hot envelope and at many. p99 is that of the transaction, from its connection to its commit: an open
that waits for a connection costs the database nothing. Sketch: at one envelope only one transaction is not blocked,
every other connection adds a lock to hand over and a process to wake; at many the disk's sync is shared by those that
meet in it, until the cores have no time left. The cap of a SET (`AdmissionConfig.cap`) should stand where the curve of
many has almost all of its height and p99 has not begun to grow: our transactions carry a thousand claims, and more of
them at a time would only wait for each other.
"""

import contextlib
from collections.abc import Iterable
from functools import partial
from statistics import median, quantiles
from time import perf_counter
from typing import Any

from loadtest.baselines.baseline import Refusal
from loadtest.baselines.books import Books
from loadtest.baselines.drive import drive
from loadtest.baselines.pessimistic import Pessimistic
from loadtest.baselines.pool import Pool
from loadtest.bench.arena import SETTINGS
from loadtest.bench.figures import Bench, Figures, Row, interleaved
from loadtest.bench.workloads import Workload, hot, many
from machine.postgres.server import Postgres, PostgresSpec
from setnode.commit.admission import AdmissionConfig

SIZES = (1, 2, 4, 8, 16, 32, 64, 100)
WAITING = 100
_FEW = 3
"""Fewer transactions than these give no quantiles."""


class Timed:
    """The pessimistic lock, with the time of each transaction noted."""

    def __init__(self, baseline: Pessimistic) -> None:
        self.baseline = baseline
        self.times_ms: list[float] = []

    async def open(self, envelope: int, user: str) -> int | Refusal:
        """Open under the lock, timed from the connection to the commit."""
        pool = self.baseline.pool
        connection = await pool.take()
        started = perf_counter()
        try:
            return await self.baseline.open_with(connection, envelope, user)
        finally:
            self.times_ms.append((perf_counter() - started) * 1000)
            pool.give(connection)


async def measure(bench: Bench) -> Figures:
    """Sweep both workloads in rounds; returns throughput and p99 by number of connections."""
    seconds = 0.35 if bench.quick else 1.0
    workloads = [
        hot(WAITING, envelopes=2, seconds=seconds),
        many("many", 2_000, 20, waiting=WAITING, seconds=seconds),
    ]
    folder = bench.scratch("connections")
    spec = PostgresSpec(
        "baselines", folder / "pg" / "baselines", folder / "pg.log", {"postgres": "bench"}, settings=SETTINGS
    )
    server = Postgres(spec)
    async with contextlib.AsyncExitStack() as exits:
        exits.push_async_callback(server.stop, "immediate")
        await server.start()
        books = await Books.make(server.dsn())
        exits.push_async_callback(books.close)
        pool = await Pool.connect(server.dsn(), max(SIZES))
        exits.push_async_callback(pool.close)
        baseline = Pessimistic(books, pool)
        found: Figures = {"waiting": WAITING, "cap": AdmissionConfig().cap, "curves": {}}
        bad = 0
        for workload in workloads:
            bench.say(workload.title)
            p99: dict[int, list[float]] = {size: [] for size in SIZES}

            async def turn(size: int, workload: Workload = workload, p99: dict[int, list[float]] = p99) -> float:
                nonlocal bad
                rate, tail, off_fen = await _turn(books, baseline, workload, size)
                p99[size].append(tail)
                bad += off_fen
                return rate

            # The first turn makes every connection prepare its statements.
            await turn(max(SIZES))
            p99[max(SIZES)].clear()
            seen = await interleaved(bench.rounds, {str(size): partial(turn, size) for size in SIZES})
            found["curves"]["hot" if workload.hot else "many"] = [
                {"connections": size, "per_second": seen[str(size)]["median"], "p99_ms": median(p99[size])}
                for size in SIZES
            ]
    bench.audit("connections", holds=not bad, unreconciled_fen=bad)
    return found


async def _turn(books: Books, baseline: Pessimistic, workload: Workload, size: int) -> tuple[float, float, int]:
    """Return opens a second, p99 of the transactions in ms, and what the money check missed."""
    baseline.pool.resize(size)
    envelopes = range(workload.envelopes)
    await baseline.prepare(envelopes, workload.shares, workload.total_fen)
    timed = Timed(baseline)
    run = await drive(
        timed.open,
        workload.asks(envelopes),
        workload.waiting,
        seconds=workload.seconds,
        at_end=baseline.pool.send_home,
    )
    money = await books.check(run.wins, await baseline.left_fen())
    times = timed.times_ms
    tail = quantiles(times, n=100)[98] if len(times) >= _FEW else max(times)
    return run.per_second, tail, money.unreconciled_fen + money.lost + money.oversold


def rows(figures: Figures) -> Iterable[Row]:
    """Show both curves, and the cap on the one of many."""
    for name, curve in figures["curves"].items():
        best = max(point["per_second"] for point in curve)
        for point in curve:
            here = point["connections"] == figures["cap"]
            more = f"p99 {point['p99_ms']:.1f} ms, {_percent(point, best)} of the best"
            yield Row(
                f"pessimistic lock, {name}, {point['connections']} connections{' (our cap)' if here else ''}",
                f"{point['per_second']:,.0f} /s",
                more,
            )


def _percent(point: dict[str, Any], best: float) -> str:
    return f"{point['per_second'] / best:.0%}"
