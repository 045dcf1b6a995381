"""The move by time: from a business date on envelopes are born on the new SET; the old days follow when they are final.

    planned → tables → announced → given_up                     begun: new envelopes go there from the date on
            → fenced → copied → compared → attached → switched → dropped → done       finished: old days are there, too

Nothing that anybody writes is ever copied: before the date nobody writes the new tables, and after their end nobody
writes the old ones. Each step finds what an earlier try has left and goes on from there.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any

from envelope.errors import InvariantBroken, Refused
from moving import leaves
from moving.compare import compare, total
from moving.copying import copy
from moving.dates import check_notice, first_date
from moving.ground import Ground, Route
from moving.journal import ABORTED, DONE, Entry, Journal
from moving.leaves import leaves_of
from moving.proof import prove_final
from moving.register import days_to_take, take_register
from moving.servers import GRACE_S, all_follow
from schema.day_tables import AHEAD_DAYS, DayTables
from sharding.topology import Topology, change
from sharding.topology.changes import move_from, reach_back

KIND = "by_time"
BEGIN = ("planned", "tables", "announced", "given_up")
FINISH = ("fenced", "copied", "compared", "attached", "switched", "dropped", DONE)
STEPS = (*BEGIN, *FINISH)


@dataclass
class ByTime:
    """One move by time. `connection` is to the source, held by this process alone (`journal.alone`)."""

    ground: Ground
    connection: Any
    journal: Journal
    figures: dict[str, Any] = field(default_factory=dict)

    @property
    def _route(self) -> Route:
        return self.journal.entry.route

    @property
    def _from(self) -> date:
        day = self.journal.entry.valid_from
        if day is None:
            raise InvariantBroken("move_has_date", "a move by time without a date")
        return day

    def _reached(self, step: str) -> bool:
        return STEPS.index(self.journal.entry.step) >= STEPS.index(step)

    async def begin(self) -> None:
        """Make tables there, announce the date, give up the tables here. Durable; again is harmless."""
        if not self._reached("tables"):
            ahead = self.ground.today() + timedelta(days=AHEAD_DAYS) - self._from
            await DayTables(self.ground.owners[self._route.target], [self._route.xx]).ensure(
                self._from, ahead_days=max(0, ahead.days)
            )
            await self.journal.done("tables")
        if not self._reached("announced"):
            await self._announce()
            await self.ground.announce(self._route.source, self._route.target)
            await self.journal.done("announced")
        if not self._reached("given_up"):
            await all_follow(self.ground.topology(), self._route.source, self._route.target)
            await self._give_up()
            await self.journal.done("given_up")

    async def _announce(self) -> None:
        def move(old: Topology) -> Topology:
            if old.set_for_database(self._route.xx).name == self._route.target:
                return old
            check_notice(self.ground, old, self._from)
            return move_from(old, self._route.xx, self._route.target, self._from)

        try:
            change(self.ground.topology_path, move)
        except Refused:
            # Begun, killed, and found again when its date has come: nobody has heard of it, and nobody shall.
            async with self.ground.connect(self._route.target) as target:
                hot = await leaves.hot_days(target, self._route.xx)
                await leaves.drop(target, leaves_of(self._route.xx, [day for day in hot if day >= self._from]))
            await self.journal.done(ABORTED)
            raise

    async def _give_up(self) -> None:
        """Drop the old SET's tables from the date on: whoever has not heard of the move cannot write them either."""
        hot = await leaves.hot_days(self.connection, self._route.xx)
        given = leaves_of(self._route.xx, [day for day in hot if day >= self._from])

        async def work() -> None:
            await self.connection.execute(f"LOCK TABLE {', '.join(one.name for one in given)}")
            for one in given:
                if await self.connection.fetchval(f"SELECT EXISTS (SELECT FROM {one.name})"):  # noqa: S608 - digits
                    raise InvariantBroken("moved_days_are_empty", f"{one.name} of the old SET has rows of {one.day}")
            await self.connection.execute(";".join(f"DROP TABLE {one.name}" for one in given))

        if given:
            await leaves.patiently(self.connection, work, f"the tables from {self._from} on")

    async def finish(self) -> list[date]:
        """Copy the old days, compare them, let reads switch, drop the old copies; returns days that stay for now.

        Those are days that rotation has taken out of the hot tables of either SET, and all before them: they stay where
        they are until they are dropped into the archive, which all SETs read. Raises Refused `days_not_final`.
        """
        if not self._reached("fenced"):
            days, left = await days_to_take(self.ground, self.connection, self._route, self._from)
            await prove_final(self.ground, self.connection, self._route, days)
            await leaves.fence(self.connection, leaves_of(self._route.xx, days))
            await self._prove_behind_the_fence(days)
            await self.journal.done("fenced", days=_texts(days), left=_texts(left))
        days, left = (_dates(self.journal.entry.note[name]) for name in ("days", "left"))
        async with self.ground.connect(self._route.target) as target:
            await self._take_over(target, days)
            if not self._reached("switched"):
                await self._check_hot(days)
                self._switch(left)
                await self.ground.announce(self._route.source, self._route.target)
                await self.journal.done("switched")
        if not self._reached("dropped"):
            await all_follow(self.ground.topology(), self._route.source, self._route.target)
            await asyncio.sleep(GRACE_S)
            await leaves.drop(self.connection, leaves_of(self._route.xx, days))
            await self.journal.done("dropped")
        # What is left comes when its days are in the archive: the same steps once more, over what there is then.
        await self.journal.done("given_up" if left else DONE, **self.figures)
        return left

    async def _prove_behind_the_fence(self, days: Sequence[date]) -> None:
        try:
            await prove_final(self.ground, self.connection, self._route, days)
        except Refused:
            await leaves.unfence(self.connection, leaves_of(self._route.xx, days))
            raise

    async def _take_over(self, target: Any, days: Sequence[date]) -> None:
        taken = leaves_of(self._route.xx, days)
        if not self._reached("copied"):
            for number, leaf in enumerate(taken):
                self.ground.progress(f"copying {self._route.name}", number, len(taken))
                await leaves.make(target, [leaf])
                await copy(self.connection, target, leaf)
            await self.journal.done("copied")
        if not self._reached("compared"):
            await self._compare(target, taken)
            await self.journal.done("compared")
        if not self._reached("attached"):
            for day in days:
                await DayTables(self.ground.owners[self._route.target], []).ensure(day, ahead_days=0)
            await leaves.attach(target, taken)
            await take_register(self.connection, target, self._route)
            await self.journal.done("attached")

    async def _compare(self, target: Any, taken: Sequence[leaves.Leaf]) -> None:
        """Compare both copies; where they differ the one there is thrown away and the move waits as before."""
        self.ground.progress(f"comparing {self._route.name}", 0, 1)
        try:
            found = await compare(self.connection, target, taken)
        except InvariantBroken:
            await leaves.drop(target, taken)
            await leaves.unfence(self.connection, taken)
            await self.journal.done("given_up")
            raise
        self.figures.update(total(found))

    async def _check_hot(self, days: Sequence[date]) -> None:
        """Make sure that nobody has rotated a day away meanwhile: it would be in both SETs, or in none."""
        gone = sorted(set(days) - set(await leaves.hot_days(self.connection, self._route.xx)))
        if gone:
            text = f"rotation has taken {gone[0]} of {self._route.name} out of the hot tables while it was copied"
            raise InvariantBroken("days_stay_hot", text)

    def _switch(self, left: Sequence[date]) -> None:
        def switch(old: Topology) -> Topology:
            moves = old.moves.get(self._route.name, ())
            since = max(left) + timedelta(days=1) if left else None
            if not moves or moves[-1].valid_from == since:
                return old
            return reach_back(old, self._route.xx, since)

        change(self.ground.topology_path, switch)


async def start(ground: Ground, connection: Any, route: Route, valid_from: date | None) -> ByTime:
    """Check that it may be, write it into the journal and do the first steps.

    Refused, before anything is changed: `date_past`, `date_too_soon`, `date_written`, `day_table_occupied`.
    """
    day = await first_date(ground, connection, route, valid_from)
    move = ByTime(ground, connection, await Journal.begin(ground, connection, KIND, route, day))
    await move.begin()
    return move


def resume(ground: Ground, connection: Any, entry: Entry) -> ByTime:
    """Return a move as the journal has it."""
    return ByTime(ground, connection, Journal(ground, connection, entry))


def _texts(days: Sequence[date]) -> list[str]:
    return [str(day) for day in days]


def _dates(texts: Sequence[str]) -> list[date]:
    return [date.fromisoformat(text) for text in texts]
