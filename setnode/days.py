"""The business days as this server knows them: which have tables, which are closed, which are near.

A create is checked against them before any money moves. That check only avoids work: what may be written is decided by
the fences in Postgres (`setnode.commit.fences`).
"""

import asyncio
import math
from collections.abc import Awaitable, Callable
from datetime import date, timedelta

from errors import Unavailable
from runtime import metrics
from runtime.clock import Clock
from schema.day_tables import days_ahead, known_days, registered_days
from setnode.commit.fences import day_closed
from setnode.limits import DAYS_AGAIN_S
from setnode.shared_session import SharedSession
from sharding.ids import business_date, day_of, yymmdd, yymmdd_of
from sharding.topology import Topology

_A_DAY = timedelta(days=1)

_ahead = metrics.gauge(
    "hongbao_day_tables_ahead", "Business days after today whose tables this SET has; -1: not today's"
)
# Until the first look: no number, so that no alarm fires.
_ahead.set(math.nan)


class BusinessDays:
    """What the last look at the catalog and the register said.

    `topology` gives the time zone of the business day. `after_look` runs after each look: envelopes of cold days leave
    memory.
    """

    def __init__(
        self,
        session: SharedSession,
        clock: Clock,
        topology: Callable[[], Topology],
        after_look: Callable[[], Awaitable[None]],
    ) -> None:
        self._session = session
        self._clock = clock
        self._topology = topology
        self._after_look = after_look
        self.readable = False
        """Whether the last look was answered by Postgres."""
        self.with_tables: set[date] = set()
        self.closed: set[date] = set()
        self._ready: frozenset[int] = frozenset()
        """The days of `is_ready`, as the first six digits of their IDs."""
        self._looking = asyncio.Lock()
        self._looked_at = -DAYS_AGAIN_S
        self._looked_on: date | None = None
        """The business date of that look."""

    async def look(self) -> None:
        """Read the days from Postgres; raises Unavailable."""
        try:
            closed = await self._session.run(registered_days)
            self.update(await self._session.run(known_days), closed)
        except BaseException:
            self.readable = False
            raise
        await self._after_look()

    def update(self, with_tables: set[date], closed: set[date]) -> None:
        """Take in which days have tables, and which are closed for good."""
        self.with_tables, self.closed = with_tables, closed
        self.readable = True
        today = self._today()
        _ahead.set(days_ahead(with_tables, today))
        ready = (day for day in with_tables - closed if abs(day - today) <= _A_DAY)
        self._ready = frozenset(yymmdd(day) for day in ready)

    def is_ready(self, envelope_id: int) -> bool:
        """Say whether the envelope's day had tables, was open and near at the last look."""
        return yymmdd_of(envelope_id) in self._ready

    async def has_tables(self, envelope_id: int) -> bool:
        """Say whether the envelope's day has tables. For an unknown day it looks again, at most every DAYS_AGAIN_S.

        It looks at once on a new business date: a sandbox's clock may bring one at any time.
        Raises Unavailable while no look has succeeded, Refused `day_closed`; in both cases nothing was written.
        """
        day = day_of(envelope_id)
        if day in self.closed:
            raise day_closed(day)
        if day in self.with_tables:
            return True
        async with self._looking:
            now, today = asyncio.get_running_loop().time(), self._today()
            again = today != self._looked_on or now - self._looked_at >= DAYS_AGAIN_S
            if day not in self.with_tables and again:
                self._looked_at, self._looked_on = now, today
                try:
                    await self.look()
                except Unavailable as away:
                    # With a known outcome: a look writes nothing.
                    raise Unavailable(away.code, away.detail, retry_after_s=away.retry_after_s) from away
        if not self.with_tables:
            raise Unavailable("database_unavailable", "the database does not answer; try again shortly")
        return day in self.with_tables

    def is_near(self, envelope_id: int) -> bool:
        """Say whether the envelope's day is today by this server's clock, or next to it: clocks differ at midnight."""
        return abs(day_of(envelope_id) - self._today()) <= _A_DAY

    def _today(self) -> date:
        return business_date(self._clock.now(), self._topology().zone)
