"""The seam to `schema.day_tables`: today's tables before anything starts, the coming days' behind it and ever after."""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from cluster.supervision.supervisor import Say

EVERY_S = 600.0
"""Tables are made days ahead; a look every ten minutes has hundreds of tries before anybody waits for one."""
SOON_DAYS = 2
"""Made at once behind the start; those of the days after them follow one by one."""
BREATH_S = 1.0
"""Between two of these: making a day's tables takes a good part of a core."""
SOON_S = 30.0
"""After a round that failed."""
OCCUPIED = "day_table_occupied"
"""The one failure of today's tables with which a stack starts."""


class DayTablesAhead:
    """Makes the day tables of all SETs as their owner; `dsns` are the owner's, by SET."""

    def __init__(self, topology: Path, dsns: Mapping[str, str], say: Say) -> None:
        self._topology = topology
        self._dsns = dsns
        self._say = say
        self._task: asyncio.Task[None] | None = None

    async def today(self) -> None:
        """Make what today needs; servers are not ready without it."""
        await self._ensure(0)

    def start(self) -> None:
        """Keep the coming days made, until `stop`."""
        self._task = asyncio.create_task(self._keep())

    async def stop(self) -> None:
        """Stop; a round in flight is rolled back by Postgres and done again at the next start."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _keep(self) -> None:
        from schema.day_tables import AHEAD_DAYS  # noqa: PLC0415 - as below

        rounds = list(range(SOON_DAYS, AHEAD_DAYS + 1))
        while True:
            pause_s = EVERY_S
            try:
                for days in rounds:
                    if await self._ensure(days):
                        await asyncio.sleep(BREATH_S)
            # Anything: a driver's error when Postgres is killed in a round must not end the rounds.
            except Exception as error:  # noqa: BLE001
                pause_s = SOON_S
                self._say(
                    f"making the tables of coming days is tried again: {getattr(error, 'detail', None) or error!r}"
                )
            # From now on all at once: one that cannot be made keeps none of the others from being made.
            rounds = [AHEAD_DAYS]
            await asyncio.sleep(pause_s)

    async def _ensure(self, ahead_days: int) -> bool:
        """Make what is missing so many days ahead; returns whether anything was.

        No SET waits for another's failure. All are said, and one is raised: an occupied name, which rotation sets free,
        only where nothing worse happened.
        """
        # Imported here: commands that start nothing need not pay for it.
        from schema.day_tables import DayTables  # noqa: PLC0415
        from sharding.ids import business_date  # noqa: PLC0415
        from sharding.topology import load  # noqa: PLC0415

        topology = load(self._topology)
        today = business_date(datetime.now(UTC), topology.zone)
        done = await asyncio.gather(
            *(
                DayTables(dsn, partial(topology.databases_of, name)).ensure(today, ahead_days=ahead_days, by_clock=True)
                for name, dsn in self._dsns.items()
            ),
            return_exceptions=True,
        )
        failures = [(name, one) for name, one in zip(self._dsns, done, strict=True) if isinstance(one, BaseException)]
        for name, failure in failures:
            self._say(f"tables of {name} are missing: {getattr(failure, 'detail', None) or failure!r}")
        if failures:
            raise min((failure for _, failure in failures), key=lambda one: getattr(one, "code", "") == OCCUPIED)
        return any(done)
