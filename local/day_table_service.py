"""Makes the day tables of all SETs: today's before any process starts, those of the coming days in the background."""

import asyncio
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from zoneinfo import ZoneInfo

from errors import HongbaoError
from local.supervisor_log import Notify
from runtime.clock import Clock
from runtime.postgres import is_lost
from schema.day_tables import DayTables
from sharding.ids import business_date
from sharding.topology import load

EVERY_S = 600.0
"""Tables are made days ahead: a round every ten minutes leaves hundreds of attempts before a create needs one."""
SOON_DAYS = 2
"""Days after today whose tables are made in the first round after the start; later days follow one by one."""
STEP_PAUSE_S = 1.0
"""Between two days of the first rounds: making a day's tables takes a good part of a core."""
NEAR = timedelta(minutes=10)
"""If tomorrow begins within this time, its tables are made with today's: a stack that has just started may still be
making them when its users create."""
RETRY_S = 30.0
"""After a round that failed."""
OCCUPIED = "day_table_occupied"
"""The code of the one failure of today's tables with which a stack starts all the same."""


class DayTableService:
    """Runs `schema.day_tables` as the owner of each SET's tables; `dsns` are the owner's, by SET.

    A move of a sandbox's clock makes the tables that it needs at once (`local.clock_move`); the rest is a round's.
    """

    def __init__(self, topology: Path, dsns: Mapping[str, str], notify: Notify, ahead_days: int, clock: Clock) -> None:
        self._topology = topology
        self._dsns = dsns
        self._notify = notify
        self._ahead_days = ahead_days
        self._clock = clock
        self._task: asyncio.Task[None] | None = None

    async def make_today(self) -> None:
        """Make the tables of today, without which no setnode is ready, and tomorrow's if it is NEAR."""
        await self._make(ahead_days_at_start(self._clock.now(), load(self._topology).zone))

    def start(self) -> None:
        """Keep the tables of the coming days made, until `stop`."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Stop; Postgres rolls back a round in flight, and the next start does it again."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _run(self) -> None:
        rounds = list(range(min(SOON_DAYS, self._ahead_days), self._ahead_days + 1))
        while True:
            pause_s = EVERY_S
            try:
                for ahead_days in rounds:
                    if await self._make(ahead_days):
                        await asyncio.sleep(STEP_PAUSE_S)
            # Any error: one of the driver, because Postgres was killed during a round, must not end the service.
            except Exception as error:  # noqa: BLE001
                pause_s = RETRY_S
                self._notify(f"tables of coming days: next attempt in {RETRY_S:.0f} s: {_reason(error)}")
            # From now on all days in one call: a day that cannot be made does not keep the others from being made.
            rounds = [self._ahead_days]
            await asyncio.sleep(pause_s)

    async def _make(self, ahead_days: int) -> bool:
        """Make the missing tables of today and the next `ahead_days` days; returns whether any were missing.

        All SETs are tried. Each failure is reported, and one is raised: an occupied name, which rotation will free,
        only if there was no other failure.
        """
        topology = load(self._topology)
        today = business_date(self._clock.now(), topology.zone)
        results = await asyncio.gather(
            *(
                DayTables(dsn, partial(topology.databases_of, name)).ensure(today, ahead_days=ahead_days, by_clock=True)
                for name, dsn in self._dsns.items()
            ),
            return_exceptions=True,
        )
        failures = [one for one in results if isinstance(one, BaseException)]
        for name, result in zip(self._dsns, results, strict=True):
            if isinstance(result, BaseException):
                self._notify(f"tables of {name} are missing: {_reason(result)}")
        if failures:
            raise min(failures, key=lambda one: getattr(one, "code", "") == OCCUPIED)
        return any(results)


def ahead_days_at_start(now: datetime, zone: ZoneInfo) -> int:
    """Return how many days after today need tables before anything starts."""
    return (business_date(now + NEAR, zone) - business_date(now, zone)).days


def _reason(error: BaseException) -> str:
    """Return a sentence, also for an error of the driver: an operator cannot act on its text."""
    if isinstance(error, HongbaoError):
        return error.detail
    if is_lost(error):
        return "Postgres closed the connection or does not answer; is its disk full? See ./run logs"
    return f"{type(error).__name__}: {error}"
