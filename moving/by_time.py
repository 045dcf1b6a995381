"""The move by time: from a business date on envelopes are created on the new SET; old days follow once they are over.

    planned → tables → announced → given_up                     begun: envelopes are created there from the date on
            → fenced → copied → compared → attached → switched → dropped → done       finished: old days are there, too

No row is copied while a process may write it: the new SET's days begin after the announcement, and old days are copied
behind a fence once they are over. Each step finds what an earlier try has left and continues from there. What is
"given up" are the source's tables from the date on, and not the move: at this step it waits until old days are over.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any

from errors import InvariantBroken, Refused
from moving import leaves
from moving.auxiliary import rewind_sweeper, sweeper_cursor
from moving.compare import compare, total
from moving.context import MoveContext
from moving.copying import copy
from moving.dates import check_notice, first_date
from moving.final_proof import prove_final
from moving.journal import ABORTED, DONE, Journal, texts
from moving.leaves import leaves_of
from moving.register import days_on_both, days_to_take, keep_rotation_away, take_register
from moving.route import Route
from moving.servers import all_follow
from runtime.postgres import Connection
from schema.day_tables import AHEAD_DAYS, DayTables
from sharding.topology import Topology
from sharding.topology.changes import backdate_move, move_from

KIND = "by_time"
BEGIN = ("planned", "tables", "announced", "given_up")
FINISH = ("fenced", "copied", "compared", "attached", "switched", "dropped", DONE)
STEPS = (*BEGIN, *FINISH)


@dataclass
class ByTime:
    """One move by time. `connection` is the one to the source, `target` to the target; both hold the move lock."""

    context: MoveContext
    connection: Connection
    target: Connection
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
        """Make the target's tables, announce the date, drop the source's from it on. Durable on return, idempotent."""
        if not self._reached("tables"):
            ahead = self.context.today() + timedelta(days=AHEAD_DAYS) - self._from
            await DayTables(self.context.owners[self._route.target], [self._route.xx]).ensure(
                self._from, ahead_days=max(0, ahead.days)
            )
            await self.journal.done("tables")
        if not self._reached("announced"):
            await self._announce()
            await self.context.announce(self._route.source, self._route.target)
            await self.journal.done("announced")
        if not self._reached("given_up"):
            await all_follow(self.context.topology(), self._route.source, self._route.target, tls=self.context.tls)
            await self._drop_given_up()
            await self.journal.done("given_up")

    async def _announce(self) -> None:
        """Write the move into the topology file; if that is refused, because its date is too near, abort the move."""

        def move(old: Topology) -> Topology:
            if old.set_for_database(self._route.xx).name == self._route.target:
                return old
            check_notice(self.context, old, self._from)
            return move_from(old, self._route.xx, self._route.target, self._from)

        try:
            await self.context.change(move, self._proof)
        except Refused:
            # Killed before the announcement, and run again when its date has come.
            ahead = [day for day in await leaves.hot_days(self.target, self._route.xx) if day >= self._from]
            self.context.must_hold(self._route.source, self._route.xx, ahead)
            await leaves.drop(self.target, leaves_of(self._route.xx, ahead))
            await self.journal.done(ABORTED)
            raise

    async def _proof(self) -> None:
        """Show that this tool still has the move; raises Unavailable `move_lock_lost`."""
        await self.journal.prove(self.target)

    async def _drop_given_up(self) -> None:
        """Drop the source's tables from the date on: a server that does not know of the move then cannot write to them.

        Raises InvariantBroken `moved_days_are_empty` if one has a row; none is dropped then.
        """
        hot = await leaves.hot_days(self.connection, self._route.xx)
        given = leaves_of(self._route.xx, [day for day in hot if day >= self._from])

        async def all_empty() -> None:
            for one in given:
                if await self.connection.fetchval(f"SELECT EXISTS (SELECT FROM {one.name})"):  # noqa: S608 - digits
                    raise InvariantBroken("moved_days_are_empty", f"{one.name} of the old SET has rows of {one.day}")

        if given:
            names = [one.name for one in given]
            await leaves.drop_tables(self.connection, self._route.xx, names, before=all_empty)

    async def finish(self) -> list[date]:
        """Copy the old days, compare them, let reads switch, drop the old copies; returns days that stay for now.

        Days that rotation has begun with on either SET stay, and so do all days before them, until rotation has dropped
        them: all SETs read the archive. From the fence to the end of this call no rotation is at work on either SET.
        Each step is durable; after a kill or an error the same call continues, and finds what rotation has done since.

        Raises Refused `days_not_final`, `days_not_past`, `days_being_rotated`; Unavailable `rotation_busy`,
        `servers_lag`, `tables_locked`; InvariantBroken `copies_are_equal`, `days_stay_hot`, `owner_keeps_rows`.
        """
        target = self.target
        if not self._reached("switched"):
            if not await self._has_switched():
                await keep_rotation_away(self._route, self.connection, target)
                await self._take_over(target, await self._fence_days(target))
                await self._check_still_hot(self._noted("days"))
            await self._switch(self._noted("left"))
            await self.context.announce(self._route.source, self._route.target)
            await self.journal.done("switched")
        days, left = self._noted("days"), self._noted("left")
        if not self._reached("dropped"):
            await all_follow(self.context.topology(), self._route.source, self._route.target, tls=self.context.tls)
            await rewind_sweeper(target, self.journal.entry.note.get("fund_cursor", 0))
            await asyncio.sleep(self.context.grace_s)
            await self._compare_again(target, days)
            self.context.must_hold(self._route.target, self._route.xx, days)
            await leaves.drop(self.connection, leaves_of(self._route.xx, days))
            await self.journal.done("dropped")
        if not left:
            await self.journal.done(DONE, **self.figures)
        else:
            # Once rotation has dropped the days that are left, the same steps are done again for what there is then.
            await self.journal.done("given_up", days=[], left=[], **self.figures)
        return left

    def _noted(self, name: str) -> list[date]:
        return self.journal.entry.days(name)

    async def _has_switched(self) -> bool:
        """Say whether a try was killed between the switch and its note: the target's rows are then no copies."""
        route, days = self._route, self._noted("days")
        if not self._reached("attached") or not days:
            return False
        return (await self.context.settled()).set_for_database(route.xx, days[0]).name == route.target

    async def _fence_days(self, target: Connection) -> list[date]:
        """Fence the days to take over, prove behind the fence that they are over, note and return them."""
        days, left = await self._choose_days(target)
        if self._reached("fenced"):
            await self.journal.remember(left=texts(left))
            return days
        await prove_final(self.context, self.connection, self._route, days)
        await self.journal.remember(days=texts(days), left=texts(left))
        await leaves.fence(self.connection, leaves_of(self._route.xx, days))
        try:
            await prove_final(self.context, self.connection, self._route, days)
        except Refused:
            await self._undo_try(target)
            raise
        await self.journal.done("fenced", fund_cursor=await sweeper_cursor(self.connection))
        return days

    async def _choose_days(self, target: Connection) -> tuple[list[date], list[date]]:
        """Return the days that can be taken over now, and those that stay.

        An earlier try that has fenced other days, because rotation has begun with some since, is undone first.
        """
        try:
            days, left = await days_to_take(self.context, self.connection, self._route, self._from)
        except Refused:
            await self._undo_try(target)
            raise
        if not self._reached("fenced") or days != self._noted("days"):
            await self._undo_try(target)
        return days, left

    async def _undo_try(self, target: Connection) -> None:
        """Undo a try: lift its fence at the source, and drop its copies at the target. Idempotent.

        Days that the topology gives to the target are no copies, whatever the journal says: they are left alone.
        """
        if self._reached("fenced"):
            # The journal first: if it still said "copied", the next try would look for copies that are gone.
            await self.journal.done("given_up")
        route = self._route
        taken = leaves_of(
            route.xx, [day for day in self._noted("days") if self.context.holds(route.source, route.xx, day)]
        )
        await leaves.unfence(self.connection, taken)
        await leaves.drop(target, taken)
        await self.journal.remember(days=[], left=[])

    async def _take_over(self, target: Connection, days: Sequence[date]) -> None:
        """Copy, compare and attach the fenced days at the target, and copy the register's rows of archived days."""
        taken = leaves_of(self._route.xx, days)
        self.context.must_hold(self._route.source, self._route.xx, days)
        if not self._reached("copied"):
            for number, leaf in enumerate(taken):
                self.context.progress(f"copying {self._route.name}", number, len(taken))
                await leaves.make(target, [leaf])
                await copy(self.connection, target, leaf)
            await self.journal.done("copied")
        if not self._reached("compared"):
            await self._compare(target, taken)
            await self.journal.done("compared")
        if not self._reached("attached"):
            for day in days:
                await DayTables(self.context.owners[self._route.target], []).ensure(day, ahead_days=0)
            await leaves.attach(target, taken)
            await take_register(self.connection, target, self._route)
            await self.journal.done("attached")

    async def _compare(self, target: Connection, taken: Sequence[leaves.Leaf]) -> None:
        """Compare both copies; if they differ, undo the try and raise InvariantBroken `copies_are_equal`."""
        self.context.progress(f"comparing {self._route.name}", 0, 1)
        try:
            found = await compare(self.connection, target, taken)
        except InvariantBroken:
            await self._undo_try(target)
            raise
        self.figures.update(total(found))

    async def _compare_again(self, target: Connection, days: Sequence[date]) -> None:
        """Compare once more just before the drop: the tool may have been stopped for days since, the target restored.

        Both sides stand still: the days are over, and rotation is kept away from here on. Raises InvariantBroken
        `copies_are_equal`; both copies stay then.
        """
        both = await days_on_both(self._route, self.connection, target, days)
        await compare(self.connection, target, leaves_of(self._route.xx, both))

    async def _check_still_hot(self, days: Sequence[date]) -> None:
        """Raise InvariantBroken `days_stay_hot` if a day has left the hot tables: it would be in both SETs, or in none.

        The day lock keeps rotation out, so this finds only a process that did not take it.
        """
        gone = sorted(set(days) - set(await leaves.hot_days(self.connection, self._route.xx)))
        if gone:
            text = f"rotation has taken {gone[0]} of {self._route.name} out of the hot tables while it was copied"
            raise InvariantBroken("days_stay_hot", text)

    async def _switch(self, left: Sequence[date]) -> None:
        """Give the target all days after the last of `left`, in one write of the topology file. Idempotent."""

        def switch(old: Topology) -> Topology:
            moves = old.moves.get(self._route.name, ())
            since = max(left) + timedelta(days=1) if left else None
            if not moves or moves[-1].valid_from == since:
                return old
            return backdate_move(old, self._route.xx, since)

        await self.context.change(switch, self._proof)


async def start(
    context: MoveContext, connection: Connection, target: Connection, route: Route, valid_from: date | None
) -> ByTime:
    """Check the date, open the journal and do the steps that begin the move.

    Refused, before anything is changed: `date_past`, `date_too_soon`, `date_written`. Refused `day_table_occupied`
    leaves the move open: once rotation has taken the old day's tables away, the same command goes on.
    """
    day = await first_date(context, connection, route, valid_from)
    move = ByTime(context, connection, target, await Journal.begin(context, connection, KIND, route, day))
    await move.begin()
    return move
