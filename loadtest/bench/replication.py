"""What a synchronous standby costs a hot envelope.

Question: an answered open survives the loss of its primary if each commit waits for a standby; how many opens a
second are left? Workload: one hot envelope after another, 1,000 waiting, inside one SET; alone, with a standby that
follows, and with commits that wait for it, in turn. The standby is on this machine and takes CPU from the engine: on a
machine of its own it costs the way there and back, and its disk. Sketch: a group commit takes 2 ms and one more flush
on the other side, about as long; a batch has some hundred claims, so half of the rate is left.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from errors import InvariantBroken
from loadtest.bench.figures import Bench, Figures, Row, Section, interleaved
from loadtest.bench.hongbao_engine import HongbaoEngine
from loadtest.bench.oneset import OneSet, one_set
from loadtest.bench.workloads import hot
from machine.account import server_account
from machine.postgres.server import Postgres
from machine.postgres.standby import make_standby
from runtime import postgres

FOLLOWS_S: Final = 30.0
_STATE = "SELECT sync_state FROM pg_stat_replication WHERE pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn) < 1000000"
_KEPT = {"wal_keep_size": "4GB"}
"""What the standby finds again after a turn without it."""
_WAITS = {"alone": "", "follows": "", "waited for": "*"}


class Pair:
    """A SET's Postgres and a standby that is started and stopped beside it."""

    def __init__(self, one: OneSet, standby: Postgres) -> None:
        self._primary = one.postgres
        self._standby = standby
        self._engine = HongbaoEngine(one)

    def turn(self, mode: str, seconds: float, holds: Callable[[bool], None]) -> Callable[[], Awaitable[float]]:
        """Return a turn of one mode: opens a second."""

        async def turn() -> float:
            await self._set(mode)
            rate, money = await self._engine.turn(hot(1_000, envelopes=40, seconds=seconds))
            holds(money.holds)
            return rate

        return turn

    async def _set(self, mode: str) -> None:
        connection = await postgres.connect(self._primary.dsn())
        try:
            await connection.execute("ALTER SYSTEM SET synchronous_standby_names = ''")
            await connection.execute("SELECT pg_reload_conf()")
            if mode == "alone":
                await self._standby.stop("fast")
                return
            if not self._standby.running:
                await self._standby.start()
            if _WAITS[mode]:
                await connection.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{_WAITS[mode]}'")
                await connection.execute("SELECT pg_reload_conf()")
            wanted = "sync" if _WAITS[mode] else "async"
            async with asyncio.timeout(FOLLOWS_S):
                while await connection.fetchval(_STATE) != wanted:
                    await asyncio.sleep(0.05)
        finally:
            await connection.close()


async def measure(bench: Bench) -> Figures:
    """Measure all three in turn."""
    folder = await asyncio.to_thread(bench.scratch, "replication")
    seconds, held = (1.0 if bench.quick else 3.0), list[bool]()
    async with one_set(folder, settings=_KEPT) as one:
        standby = await make_standby(one.postgres, folder / "pg" / "standby", folder / "standby.log", server_account())
        try:
            pair = Pair(one, standby)
            bench.say("one hot envelope, with and without a standby")
            found = await interleaved(bench.rounds, {mode: pair.turn(mode, seconds, held.append) for mode in _WAITS})
            await pair.turn("alone", 0.1, held.append)()
        finally:
            await standby.stop("immediate")
    if not held:
        raise InvariantBroken("turns_are_checked", "no turn was checked")
    bench.audit("replication", holds=all(held))
    return {"contenders": found, "sync_vs_async": found["waited for"]["median"] / found["alone"]["median"]}


def rows(figures: Figures) -> Iterable[Row]:
    """Return a line for each mode."""
    alone = figures["contenders"]["alone"]["median"]
    for mode, one in figures["contenders"].items():
        yield Row(f"standby: {mode}", f"{one['median']:,.0f} opens/s", f"{one['median'] / alone:.2f} of alone")


SECTION: Final = Section("replication", "a hot envelope, with and without a synchronous standby", measure, rows)
