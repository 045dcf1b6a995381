"""Answers that are lost when a contender is killed in mid-run: given to a client, and afterwards not in Postgres.

Each baseline dies as its kind dies: memory is dropped and connections are cut; Redis gets SIGKILL and starts again with
what its file holds. Under our engine Postgres gets SIGKILL and starts again. The kernel survives a killed process, and
with it what was written but not synced: a power cut would cost Redis with `everysec` up to a second of answers more.
"""

import asyncio
import contextlib
from collections.abc import Iterable, Iterator

from loadtest.baselines.baseline import Baseline
from loadtest.baselines.drive import Ask, Run, drive
from loadtest.baselines.redis_lua import RedisLua
from loadtest.bench.arena import CONNECTIONS, Arena
from loadtest.bench.hongbao_engine import ClosedLoop, lost_of
from loadtest.bench.workloads import Workload
from runtime import postgres

KILL_AFTER = 5_000
"""Opens, or `KILL_AFTER_S`, whichever comes first."""
KILL_AFTER_S = 0.6
RUN_S = 5.0
"""Length of the run; the kill comes earlier."""


def _ringing(asks: Iterable[Ask], bell: asyncio.Event) -> Iterator[Ask]:
    for number, ask in enumerate(asks):
        if number == KILL_AFTER:
            bell.set()
        yield ask


async def _rung(bell: asyncio.Event) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(KILL_AFTER_S):
            await bell.wait()


async def kill_baseline(baseline: Baseline, workload: Workload) -> Run:
    """Kill a baseline in mid-run; returns the answers that it gave until then."""
    envelopes = range(workload.envelopes)
    await baseline.prepare(envelopes, workload.shares, workload.total_fen)
    bell = asyncio.Event()
    asks = _ringing(workload.asks(envelopes), bell)
    async with baseline.writing() if isinstance(baseline, RedisLua) else contextlib.nullcontext():
        running = asyncio.ensure_future(drive(baseline.open, asks, workload.waiting, seconds=RUN_S))
        try:
            await _rung(bell)
            await baseline.kill()
            return await running
        finally:
            running.cancel()
            await asyncio.wait({running})


async def of_baselines(arena: Arena, workload: Workload) -> dict[str, dict[str, int]]:
    """Kill them all, those that share the pool last. Returns answered and lost by name."""
    found: dict[str, dict[str, int]] = {}
    for name in reversed(arena.baselines):
        baseline = arena.baselines[name]
        if arena.pool.cut_off:
            await arena.pool.renew(arena.dsn)
        arena.pool.resize(arena.best.get((name, workload.hot), CONNECTIONS))
        run = await kill_baseline(baseline, workload)
        await baseline.settle()
        found[name] = {"answered": len(run.wins), "lost": await arena.books.lost(run.wins)}
    return found


async def of_hongbao(arena: Arena, workload: Workload) -> dict[str, int]:
    """Kill the Postgres under our engine in mid-run and start it again; returns answered and lost."""
    one = arena.hongbao.one
    envelopes = await arena.hongbao.envelopes(workload)
    bell = asyncio.Event()
    loop = ClosedLoop(one.node, _ringing(workload.asks(envelopes), bell), workload.waiting, seconds=RUN_S)
    running = asyncio.ensure_future(loop.run())
    try:
        await _rung(bell)
        one.postgres.kill()
        await one.postgres.wait()
        await one.postgres.start()
        await running
    finally:
        running.cancel()
        await asyncio.wait({running})
    connection = await postgres.connect(one.owner)
    try:
        return {"answered": len(loop.won), "lost": await lost_of(connection, loop.wins)}
    finally:
        await connection.close(timeout=5.0)
