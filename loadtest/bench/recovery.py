"""How long a SET takes to come back from its backup on a new place, and what is lost.

Question: a SET's host is gone with its disk; how many seconds until its claims are in a Postgres that takes
connections, and how many of them are missing? Workload: one SET whose tables hold 10^7 claims (10^6 with `--quick`) in
sold-out envelopes; a base copy while the log is received; then one hot envelope after another is opened for some
seconds, whose claims are in the log alone. The receiver has all of it before the server is killed without a checkpoint:
what it has not is lost with the disk, because the log is received after the commit. The copy is restored in another
folder, to the end of the log, and its claims are counted.

Sketch: 10^7 claims are 2.5 GB; a copy reads and writes them at the disk's pace, 200 MB/s on a small machine, 12 s, and
as much again for the rights of a thousand files and the replay of the log.
"""

import asyncio
import time
from collections.abc import Iterable
from typing import Final

from backup.backups import Backups
from backup.folder import LogState
from backup.logkeeper import LogKeeper
from backup.programs import Source
from backup.recovery_point import last_commit
from errors import Unavailable
from loadtest.bench.figures import Bench, Figures, Row, Section
from loadtest.bench.fill import fill_days
from loadtest.bench.hongbao_engine import HongbaoEngine
from loadtest.bench.oneset import OneSet, one_set
from loadtest.bench.workloads import hot
from runtime import postgres
from schema import roles

CLAIMS: Final = 10_000_000
QUICK_CLAIMS: Final = 1_000_000
HOT_S: Final = 3.0
RECEIVED_S: Final = 60.0
_COUNT: Final = "SELECT count(*) FROM claim"
_SIZE: Final = "SELECT sum(pg_database_size(oid))::bigint FROM pg_database"


async def measure(bench: Bench, claims: int) -> Figures:
    """Fill, copy, open, lose, restore, count."""
    folder = await asyncio.to_thread(bench.scratch, "recovery")
    async with one_set(folder) as one:
        source = Source("set-1", one.postgres.dsn(), dict(one.postgres.spec.passwords))
        backups = Backups(source, folder / "backups")
        stop, keeper = asyncio.Event(), LogKeeper(lambda: source, backups.folder, bench.say)
        receiving = asyncio.ensure_future(keeper.receive(stop))
        try:
            bench.say(f"filling {claims:,} claims")
            await fill_days(one, claims, days=1)
            bench.say("taking a base copy")
            began = time.monotonic()
            base = await backups.take()
            took_s = time.monotonic() - began
            bench.say("opening, into the log alone")
            rate, money = await HongbaoEngine(one).turn(hot(1_000, envelopes=40, seconds=HOT_S))
            await _received(keeper)
            before, size = int(await one.scalar(_COUNT)), int(await _size(one))
        finally:
            stop.set()
            await receiving
        await one.postgres.stop("immediate")
        bench.say("restoring")
        began = time.monotonic()
        server = await backups.restore(folder / "restored", None)
        restored_s = time.monotonic() - began
        try:
            async with postgres.connected(server.dsn(roles.OWNER, roles.DATABASE)) as connection:
                after = int(await connection.fetchval(_COUNT))
        finally:
            await server.stop()
    commit = last_commit(folder / "restored" / "restore.log")
    bench.audit("recovery", holds=money.holds and after == before)
    return {
        "claims": before,
        "bytes": size,
        "copied_s": took_s,
        "restored_s": restored_s,
        "lost": before - after,
        "opens_per_second": rate,
        "log_s": None if commit is None else (commit - base.taken_at).total_seconds(),
    }


async def _received(keeper: LogKeeper) -> None:
    end = time.monotonic() + RECEIVED_S
    while True:
        status = await keeper.status()
        if status.state is LogState.KEPT and not status.behind_bytes:
            return
        if time.monotonic() > end:
            raise Unavailable("log_behind", f"the log is {status.state}, {status.behind_bytes} bytes late")
        await asyncio.sleep(0.1)


async def _size(one: OneSet) -> int:
    async with postgres.connected(one.postgres.dsn()) as connection:
        return int(await connection.fetchval(_SIZE))


def rows(figures: Figures) -> Iterable[Row]:
    """Return the times, and what is lost."""
    size = f"{figures['claims']:,} claims, {figures['bytes'] / 1e9:.1f} GB"
    yield Row("base copy of a SET, verified", f"{figures['copied_s']:.1f} s", size)
    log = "no log" if figures["log_s"] is None else f"and {figures['log_s']:.1f} s of log"
    yield Row("SET restored on a new place", f"{figures['restored_s']:.1f} s", f"{size}, {log}")
    yield Row("claims lost", f"{figures['lost']:,}", "of those that the receiver of the log had: must be 0")


async def _measure(bench: Bench) -> Figures:
    return await measure(bench, QUICK_CLAIMS if bench.quick else CLAIMS)


SECTION: Final = Section("recovery", "a SET that is lost and restored", _measure, rows)
