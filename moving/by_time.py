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
from moving.journal import ABORTED, DONE, Entry, Journal, texts
from moving.leaves import leaves_of
from moving.limits import GRACE_S
from moving.proof import prove_final
from moving.register import days_to_take, keep_rotation_away, take_register
from moving.servers import all_follow
from moving.sides import sweeper_at, turn_back_sweeper
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
                ahead = [day for day in await leaves.hot_days(target, self._route.xx) if day >= self._from]
                self.ground.must_hold(self._route.source, self._route.xx, ahead)
                await leaves.drop(target, leaves_of(self._route.xx, ahead))
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
        they are until they are dropped into the archive, which all SETs read. From the fence to the end no rotation is
        at work on either SET; what one has done between two tries is found by the later one.

        Raises Refused `days_not_final`, `days_not_past`, `days_being_rotated`, Unavailable `rotation_busy`.
        """
        async with self.ground.connect(self._route.target) as target:
            if not self._reached("switched"):
                if not self._has_switched():
                    await keep_rotation_away(self._route, self.connection, target)
                    await self._take_over(target, await self._fenced(target))
                    await self._check_hot(self._noted("days"))
                self._switch(self._noted("left"))
                await self.ground.announce(self._route.source, self._route.target)
                await self.journal.done("switched")
            days, left = self._noted("days"), self._noted("left")
            if not self._reached("dropped"):
                await all_follow(self.ground.topology(), self._route.source, self._route.target)
                await turn_back_sweeper(target, self.journal.entry.note.get("fund_cursor", 0))
                await asyncio.sleep(GRACE_S)
                self.ground.must_hold(self._route.target, self._route.xx, days)
                await leaves.drop(self.connection, leaves_of(self._route.xx, days))
                await self.journal.done("dropped")
        if not left:
            await self.journal.done(DONE, **self.figures)
        else:
            # What is left comes when its days are in the archive: the same steps once more, over what there is then.
            await self.journal.done("given_up", days=[], left=[], **self.figures)
        return left

    def _noted(self, name: str) -> list[date]:
        return self.journal.entry.days(name)

    def _has_switched(self) -> bool:
        """Say whether a try that was killed just then has switched: what stands on the target is no copy any more."""
        route, days = self._route, self._noted("days")
        return self._reached("attached") and days != [] and self.ground.holds(route.target, route.xx, days[0])

    async def _fenced(self, target: Any) -> list[date]:
        """Return the days to take over, fenced and proven behind the fence."""
        days, left = await self._split(target)
        if self._reached("fenced"):
            await self.journal.remember(left=texts(left))
            return days
        await prove_final(self.ground, self.connection, self._route, days)
        await self.journal.remember(days=texts(days), left=texts(left))
        await leaves.fence(self.connection, leaves_of(self._route.xx, days))
        try:
            await prove_final(self.ground, self.connection, self._route, days)
        except Refused:
            await self._give_back(target)
            raise
        await self.journal.done("fenced", fund_cursor=await sweeper_at(self.connection))
        return days

    async def _split(self, target: Any) -> tuple[list[date], list[date]]:
        """Return the days that can be taken over as it is now, and those that stay.

        Where those are other ones than an earlier try has taken, that try is taken back: rotation has begun with some.
        """
        try:
            days, left = await days_to_take(self.ground, self.connection, self._route, self._from)
        except Refused:
            await self._give_back(target)
            raise
        if not self._reached("fenced") or days != self._noted("days"):
            await self._give_back(target)
        return days, left

    async def _give_back(self, target: Any) -> None:
        """Throw away the copies that a try has made, and lift its fence. Idempotent; killed anywhere it is done again.

        Days that are on the target by the topology are no copies, whatever the note says.
        """
        if self._reached("fenced"):
            # First: a journal that still says "copied" would send the next try after tables that are gone.
            await self.journal.done("given_up")
        route = self._route
        taken = leaves_of(
            route.xx, [day for day in self._noted("days") if self.ground.holds(route.source, route.xx, day)]
        )
        await leaves.unfence(self.connection, taken)
        await leaves.drop(target, taken)
        await self.journal.remember(days=[], left=[])

    async def _take_over(self, target: Any, days: Sequence[date]) -> None:
        taken = leaves_of(self._route.xx, days)
        self.ground.must_hold(self._route.source, self._route.xx, days)
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
        """Compare both copies; where they differ the ones there are thrown away and the move waits as before."""
        self.ground.progress(f"comparing {self._route.name}", 0, 1)
        try:
            found = await compare(self.connection, target, taken)
        except InvariantBroken:
            await self._give_back(target)
            raise
        self.figures.update(total(found))

    async def _check_hot(self, days: Sequence[date]) -> None:
        """Make sure that nobody has rotated a day away meanwhile: it would be in both SETs, or in none.

        Rotation is locked out, so this only ever finds whoever has gone round it.
        """
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

    Refused, before anything is changed: `date_past`, `date_too_soon`, `date_written`. Refused `day_table_occupied`
    leaves the move begun: once the old day's tables are rotated away, running it again goes on.
    """
    day = await first_date(ground, connection, route, valid_from)
    move = ByTime(ground, connection, await Journal.begin(ground, connection, KIND, route, day))
    await move.begin()
    return move


def resume(ground: Ground, connection: Any, entry: Entry) -> ByTime:
    """Return a move as the journal has it."""
    return ByTime(ground, connection, Journal(ground, connection, entry))
