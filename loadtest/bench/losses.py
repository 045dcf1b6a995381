"""What is lost when a contender is killed in mid-run: answered, and then not in Postgres.

Rivals die as their kind dies: memory is dropped and connections are cut; Redis gets SIGKILL and starts again with what
its file holds. For us Postgres itself gets SIGKILL and starts again. A killed process leaves the kernel alive, and what
it had written but not synced: a power cut would cost Redis with `everysec` up to a second of answers more.
"""

import asyncio
import contextlib
from collections.abc import Iterable, Iterator

from loadtest.bench.arena import CONNECTIONS, Arena
from loadtest.bench.ours import Crowd, lost_of
from loadtest.bench.workloads import Workload
from loadtest.rivals.drive import Ask, Run, drive
from loadtest.rivals.redis_lua import RedisLua
from loadtest.rivals.rival import Rival
from runtime import postgres

KILL_AFTER = 5_000
"""Opens, or `KILL_AFTER_S`, whichever comes first."""
KILL_AFTER_S = 0.6
RUN_S = 5.0
"""A run that nothing has killed by then."""


def _ringing(asks: Iterable[Ask], bell: asyncio.Event) -> Iterator[Ask]:
    for number, ask in enumerate(asks):
        if number == KILL_AFTER:
            bell.set()
        yield ask


async def _rung(bell: asyncio.Event) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(KILL_AFTER_S):
            await bell.wait()


async def kill_rival(rival: Rival, workload: Workload) -> Run:
    """Kill a rival in mid-run; returns what users were told until then."""
    envelopes = range(workload.envelopes)
    await rival.prepare(envelopes, workload.shares, workload.total_fen)
    bell = asyncio.Event()
    asks = _ringing(workload.asks(envelopes), bell)
    async with rival.writing() if isinstance(rival, RedisLua) else contextlib.nullcontext():
        running = asyncio.ensure_future(drive(rival.open, asks, workload.waiting, seconds=RUN_S))
        try:
            await _rung(bell)
            await rival.kill()
            return await running
        finally:
            running.cancel()
            await asyncio.wait({running})


async def of_rivals(arena: Arena, workload: Workload) -> dict[str, dict[str, int]]:
    """Kill them all, the pool's users last: they share it. Returns answered and lost by name."""
    found: dict[str, dict[str, int]] = {}
    for name in reversed(arena.rivals):
        rival = arena.rivals[name]
        if arena.pool.cut_off:
            await arena.pool.renew(arena.dsn)
        arena.pool.resize(arena.best.get((name, workload.hot), CONNECTIONS))
        run = await kill_rival(rival, workload)
        await rival.settle()
        found[name] = {"answered": len(run.wins), "lost": await arena.books.lost(run.wins)}
    return found


async def of_ours(arena: Arena, workload: Workload) -> dict[str, int]:
    """Kill the Postgres under our engine in mid-run and start it again; returns answered and lost."""
    parts = arena.ours.parts
    envelopes = await arena.ours.envelopes(workload)
    bell = asyncio.Event()
    crowd = Crowd(parts.node, _ringing(workload.asks(envelopes), bell), workload.waiting, seconds=RUN_S)
    running = asyncio.ensure_future(crowd.run())
    try:
        await _rung(bell)
        parts.postgres.kill()
        await parts.postgres.wait()
        await parts.postgres.start()
        await running
    finally:
        running.cancel()
        await asyncio.wait({running})
    connection = await postgres.connect(parts.owner)
    try:
        return {"answered": len(crowd.told), "lost": await lost_of(connection, crowd.wins)}
    finally:
        await connection.close(timeout=5.0)
