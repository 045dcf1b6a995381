"""The live move: all hot days of a database, now, beside the traffic; it stands still for two seconds at most.

    planned → made → published → subscribed → synced → attached      copied and followed, nobody notices
            → held → fenced → equal → switched                       the stall: requests wait at the gateway
            → settled → cleared → done                               the old copies go

Until `switched` everything can be undone, and is where the copies differ; where the stall would be too long the traffic
goes on as before. A tool that was killed in the stall leaves the database held; run again it first lets the traffic go.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any

from envelope.errors import InvariantBroken, Refused, Unavailable
from moving import leaves, stall
from moving.compare import Settled, compare, settle_old, total
from moving.ground import TOPOLOGY_CHANNEL, Ground, Route
from moving.journal import ABORTED, DONE, Journal, texts
from moving.leaves import Leaf, leaves_of
from moving.limits import CATCH_UP_ROUNDS, CLOSE_S, DAY_TRIES, GRACE_S, STALL_S
from moving.register import all_days, keep_rotation_away, take_register
from moving.replication import Replication
from moving.servers import all_follow
from moving.sides import copy_sides, forget_copies, forget_moved, sweeper_at, turn_back_sweeper
from schema.day_tables import DayTables
from sharding.topology import Topology, change
from sharding.topology.changes import hold, settle

KIND = "live"
STEPS = (
    "planned",
    "made",
    "published",
    "subscribed",
    "synced",
    "attached",
    *stall.STEPS,
    "switched",
    "settled",
    "cleared",
    DONE,
)


@dataclass
class Live:
    """One live move. `source` is held by this process alone (`journal.alone`), `target` is the other SET."""

    ground: Ground
    source: Any
    target: Any
    journal: Journal
    figures: dict[str, Any] = field(default_factory=dict)

    @property
    def _route(self) -> Route:
        return self.journal.entry.route

    @property
    def _replication(self) -> Replication:
        route = self._route
        return Replication(route.xx, self.source, self.target, self.ground.owners[route.source])

    def _reached(self, step: str) -> bool:
        return STEPS.index(self.journal.entry.step) >= STEPS.index(step)

    async def run(self) -> list[date]:
        """Do what is left; returns days that stay at the source until rotation has dropped them into the archive.

        Whatever an earlier try has left standing still was let go before (`stall.end`).
        """
        if not self._reached("switched"):
            if not stall.switched(self.ground, self._route):
                await self._come_over()
            # Once more: a try that failed or died just then may have left it where a crash would undo it.
            self._switch()
            await self.ground.announce(self._route.source, self._route.target)
            await self.journal.done("switched", **self.figures)
        return await self._clear()

    async def _come_over(self) -> None:
        """Follow and cut over; anew where a day came or went in between, as in the minute after a SET's first start."""
        tries = DAY_TRIES
        while True:
            await forget_copies(self.target, self._route.slots)
            await self._follow()
            try:
                await self._cut_over()
            except Unavailable as error:
                tries -= 1
                if error.code != "leaves_changed" or not tries:
                    raise
                self.ground.progress(f"taking in another day of {self._route.name}", 0, 1)
            else:
                return

    async def _follow(self) -> None:
        """Copy and follow until the copy is close behind. Leaves that are made meanwhile are taken in."""
        name = self._route.name
        while True:
            days, left = await all_days(self.ground, self.source, self._route)
            if not days:
                raise Refused("nothing_hot", f"{name} has no days that could be moved live")
            taken = leaves_of(self._route.xx, days)
            # Taken by an earlier try or round, and rotation has begun with them since.
            gone = sorted({*self._days("days"), *self._days("gone")} - {*days})
            await self.journal.remember(days=texts(days), left=texts(left), gone=texts(gone))
            await leaves.make(self.target, taken)
            await self._once("made")
            await self._replication.publish(taken)
            await self._once("published")
            await self._replication.subscribe()
            await self._once("subscribed")
            await self._replication.synced(lambda done, of: self.ground.progress(f"copying {name}", done, of))
            await self._catch_up()
            await self._once("synced")
            await self._forget_days(gone)
            await keep_rotation_away(self._route, self.source, self.target)
            if await all_days(self.ground, self.source, self._route) != (days, left):
                continue
            for day in days:
                await DayTables(self.ground.owners[self._route.target], []).ensure(day, ahead_days=0)
            await leaves.attach(self.target, taken)
            await take_register(self.source, self.target, self._route)
            await self._catch_up()
            if await all_days(self.ground, self.source, self._route) == (days, left):
                await self._once("attached")
                return

    async def _forget_days(self, gone: Sequence[date]) -> None:
        """Drop the copies of days that stay; nothing is written to them any more once the stream has caught up."""
        self.ground.must_hold(self._route.source, self._route.xx, gone)
        await leaves.drop(self.target, leaves_of(self._route.xx, gone))
        await self.journal.remember(gone=[])

    async def _once(self, step: str) -> None:
        """Write a step down, unless an earlier round or an earlier try has."""
        if not self._reached(step):
            await self.journal.done(step)

    async def _catch_up(self) -> None:
        for _ in range(CATCH_UP_ROUNDS):
            lag_s = await self._replication.beat()
            self.ground.progress(f"{self._route.name} is {lag_s:.2f} s behind", 0, 1)
            if lag_s <= CLOSE_S:
                return
        raise Unavailable(
            "replication_lags", f"the copy of {self._route.name} does not catch up; the new SET is too busy"
        )

    def _days(self, name: str) -> list[date]:
        return self.journal.entry.days(name)

    async def _cut_over(self) -> None:
        """Hold the traffic, fence, compare, switch; whatever goes wrong before the switch, the traffic goes on here."""
        await all_follow(self.ground.topology(), self._route.source, self._route.target)
        taken = leaves_of(self._route.xx, self._days("days"))
        loop = asyncio.get_running_loop()
        try:
            self.ground.progress(f"comparing {self._route.name}", 0, 1)
            await self._catch_up()
            settled = await settle_old(self.source, self.target, taken, self._route.slots)
            await self._catch_up()
            await self._check_days()
            began = loop.time()
            await stall.in_time(self._stand_still(taken, settled), STALL_S, (self.target, self.source))
        except BaseException as error:
            # Where even the switch has been made it holds, however the try ended: running it again goes on from there.
            if not stall.switched(self.ground, self._route):
                await self._back_out(differ=isinstance(error, InvariantBroken))
            if isinstance(error, TimeoutError):
                text = f"{self._route.name} would have stood still for more than {STALL_S} s; try at a quieter hour"
                raise Unavailable("stall_too_long", text) from None
            raise
        self.figures["stall_s"] = round(loop.time() - began, 4)

    async def _stand_still(self, taken: Sequence[Leaf], settled: Settled) -> None:
        change(self.ground.topology_path, lambda old: hold(old, self._route.xx))
        await self._tell_servers()
        await self.journal.done("held")
        await leaves.fence(self.source, taken)
        await self.journal.done("fenced", fund_cursor=await sweeper_at(self.source))
        await self._check_days()
        await self._replication.beat()
        sides = await copy_sides(self.source, self.target, self._route.slots)
        self.figures.update(total(await compare(self.source, self.target, taken, settled)), **sides)
        await self.journal.done("equal")
        self._switch()

    async def _check_days(self) -> None:
        if await all_days(self.ground, self.source, self._route) != (self._days("days"), self._days("left")):
            raise Unavailable("leaves_changed", f"days of {self._route.name} come or go just now; run it again")

    async def _back_out(self, *, differ: bool) -> None:
        """Let the traffic go on where it was, and the copy follow again; copies that differ are thrown away."""
        await stall.end(self.ground, self.journal)
        if differ:
            await self.undo()
        else:
            await stall.forget(self.ground, self._route)

    async def _tell_servers(self) -> None:
        for connection in (self.source, self.target):
            await connection.execute("SELECT pg_notify($1, '')", TOPOLOGY_CHANNEL)

    def _switch(self) -> None:
        left, route = self._days("left"), self._route
        since = max(left) + timedelta(days=1) if left else None

        def switch(old: Topology) -> Topology:
            if old.set_for_database(route.xx).name == route.target:
                return old
            return settle(old, route.xx, route.target, since)

        change(self.ground.topology_path, switch)

    async def _clear(self) -> list[date]:
        """End the replication, let the new SET look after what the old one had begun, drop the old copies."""
        left = self._days("left")
        if not self._reached("settled"):
            await self._replication.end()
            await all_follow(self.ground.topology(), self._route.source, self._route.target)
            # A note of an older tool lacks it: all funds are looked at again then.
            await turn_back_sweeper(self.target, self.journal.entry.note.get("fund_cursor", 0))
            await self.journal.done("settled")
        if not self._reached("cleared"):
            await asyncio.sleep(GRACE_S)
            self.ground.must_hold(self._route.target, self._route.xx, self._days("days"))
            await forget_moved(self.source, self._route.slots)
            await leaves.drop(self.source, leaves_of(self._route.xx, self._days("days")))
            await self.journal.done("cleared")
        if left:
            await self.journal.becomes_by_time(max(left) + timedelta(days=1))
        else:
            await self.journal.done(DONE, **self.figures)
        return left

    async def undo(self) -> None:
        """Take away what a move has made that has not switched and is not in its stall; the database is where it was.

        Idempotent.
        """
        route = self._route
        await forget_copies(self.target, route.slots)
        await self._replication.end()
        days = sorted({*self._days("days"), *self._days("gone"), *await leaves.hot_days(self.source, route.xx)})
        self.ground.must_hold(route.source, route.xx, days)
        await leaves.drop(self.target, leaves_of(route.xx, days))
        await self.journal.done(ABORTED)
