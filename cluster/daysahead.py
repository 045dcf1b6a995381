"""Makes the day tables of all SETs: today's before a server starts, those of the days ahead beside the running ones."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

from runtime.clock import Clock, SystemClock
from runtime.periodic import Periodic
from schema.day_tables import AHEAD_DAYS, DayTables
from sharding import topology
from sharding.ids import business_date

ROUND_S = 600.0
"""Days are made two ahead: hundreds of rounds may fail before one is missed."""


class DaysAhead:
    """`owners` gives for each SET the DSN of its database's owner. Nothing else on this machine may do DDL."""

    def __init__(self, path: Path, owners: Mapping[str, str], clock: Clock | None = None) -> None:
        self._path = path
        self._owners = owners
        self._clock = clock or SystemClock()
        self._task: asyncio.Task[None] | None = None

    async def make(self, ahead_days: int) -> None:
        """Make what is missing for today and `ahead_days` after it; idempotent. Raises Refused or Unavailable."""
        # Read anew each time: a move changes which SET holds a database.
        current = topology.load(self._path)
        today = business_date(self._clock.now(), current.zone)
        async with asyncio.TaskGroup() as group:
            for name, dsn in self._owners.items():
                tables = DayTables(dsn, current.databases_of(name))
                group.create_task(tables.ensure(today, ahead_days=ahead_days))

    def start(self) -> None:
        """Begin to keep ahead."""
        rounds = Periodic("days_ahead", lambda: self.make(AHEAD_DAYS), interval_s=ROUND_S)
        self._task = asyncio.create_task(rounds.run(), name="days_ahead")

    async def close(self) -> None:
        """Stop; what is half made is rolled back."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
