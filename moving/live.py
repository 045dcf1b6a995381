"""The live move: all hot days of a database at once, beside the traffic, with a cutover of less than two seconds.

    planned → made → published → subscribed → synced → attached      copied and followed; requests are not delayed
            → held → fenced → equal → switched                       the cutover: requests wait at the gateways
            → settled → cleared → done                               the old copies are dropped

Until `switched` everything can be undone. If the copies differ, the move is undone; if the cutover takes too long, the
source serves on. A process that is killed in the cutover leaves the database held; the next run releases it first.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any

from errors import HongbaoError, InvariantBroken, Refused, Unavailable
from moving import cutover, leaves
from moving.auxiliary import copy_auxiliary, delete_copies, delete_moved, rewind_sweeper, sweeper_cursor
from moving.compare import Settled, compare, settle_old, total
from moving.context import MoveContext, notify_servers
from moving.journal import ABORTED, DONE, Journal, texts
from moving.leaves import Leaf, leaves_of
from moving.limits import CATCH_UP_ROUNDS, CLOSE_S, CUTOVER_S, DAY_TRIES
from moving.register import all_days, days_on_both, keep_rotation_away, take_register
from moving.replication import Replication
from moving.route import Route
from moving.servers import all_follow
from runtime.postgres import Connection
from schema.day_tables import DayTables
from sharding.topology import Topology
from sharding.topology.changes import assign, hold

KIND = "live"
STEPS = (
    "planned",
    "made",
    "published",
    "subscribed",
    "synced",
    "attached",
    *cutover.STEPS,
    "switched",
    "settled",
    "cleared",
    DONE,
)


@dataclass
class Live:
    """One live move. `source` and `target` are the connections to both SETs that hold the move lock."""

    context: MoveContext
    source: Connection
    target: Connection
    journal: Journal
    figures: dict[str, Any] = field(default_factory=dict)

    @property
    def _route(self) -> Route:
        return self.journal.entry.route

    @property
    def _replication(self) -> Replication:
        route = self._route
        return Replication(route.xx, self.source, self.target, self.context.owners[route.source])

    def _reached(self, step: str) -> bool:
        return STEPS.index(self.journal.entry.step) >= STEPS.index(step)

    async def run(self) -> list[date]:
        """Do what is left of the move; returns days that stay at the source until rotation has dropped them.

        The caller has released the traffic that an earlier try may have left held (`cutover.release_traffic`).
        """
        if not self._reached("switched"):
            if not await cutover.switched(self.context, self._route):
                await self._copy_and_cut_over()
            # Also if the switch is written already: the try that wrote it may have ended before the file was durable.
            await self._switch()
            await self.context.announce(self._route.source, self._route.target)
            await self.journal.done("switched", **self.figures)
        return await self._clear()

    async def _copy_and_cut_over(self) -> None:
        """Copy, follow, cut over; again if a day came or went in between, as just after a SET's first start."""
        tries = DAY_TRIES
        while True:
            await delete_copies(self.target, self._route.slots)
            await self._follow()
            try:
                await self._cut_over()
            except Unavailable as error:
                tries -= 1
                if error.code != "leaves_changed" or not tries:
                    raise
                self.context.progress(f"taking in another day of {self._route.name}", 0, 1)
            else:
                return

    async def _follow(self) -> None:
        """Copy and follow until the copy is attached and lags by CLOSE_S at most; start anew if days change."""
        name = self._route.name
        while True:
            days, left = await all_days(self.context, self.source, self._route)
            if not days:
                raise Refused("nothing_hot", f"{name} has no days that could be moved live")
            taken = leaves_of(self._route.xx, days)
            # Days that an earlier try or round has copied, and that rotation has begun with since.
            gone = sorted({*self._days("days"), *self._days("gone")} - {*days})
            await self.journal.remember(days=texts(days), left=texts(left), gone=texts(gone))
            await leaves.make(self.target, taken)
            await self._note_once("made")
            await self._replication.publish(taken)
            await self._note_once("published")
            await self._replication.subscribe()
            await self._note_once("subscribed")
            await self._replication.synced(lambda done, of: self.context.progress(f"copying {name}", done, of))
            await self._catch_up()
            await self._note_once("synced")
            await self._forget_days(gone)
            await keep_rotation_away(self._route, self.source, self.target)
            if await all_days(self.context, self.source, self._route) != (days, left):
                continue
            for day in days:
                await DayTables(self.context.owners[self._route.target], []).ensure(day, ahead_days=0)
            await leaves.attach(self.target, taken)
            await take_register(self.source, self.target, self._route)
            await self._catch_up()
            if await all_days(self.context, self.source, self._route) == (days, left):
                await self._note_once("attached")
                return

    async def _forget_days(self, gone: Sequence[date]) -> None:
        """Drop the copies of days that stay; called once the stream has caught up and writes no more of them."""
        self.context.must_hold(self._route.source, self._route.xx, gone)
        await leaves.drop(self.target, leaves_of(self._route.xx, gone))
        await self.journal.remember(gone=[])

    async def _note_once(self, step: str) -> None:
        """Note a step, unless an earlier round or try has noted it."""
        if not self._reached(step):
            await self.journal.done(step)

    async def _catch_up(self) -> None:
        """Wait until the copy lags by CLOSE_S at most; raises Unavailable `replication_lags`."""
        for _ in range(CATCH_UP_ROUNDS):
            lag_s = await self._replication.wait_for_watermark()
            self.context.progress(f"{self._route.name} is {lag_s:.2f} s behind", 0, 1)
            if lag_s <= CLOSE_S:
                return
        raise Unavailable(
            "replication_lags", f"the copy of {self._route.name} does not catch up; the new SET is too busy"
        )

    def _days(self, name: str) -> list[date]:
        return self.journal.entry.days(name)

    async def _cut_over(self) -> None:
        """Hold the traffic, fence, compare, switch; if anything fails before the switch, the source serves on."""
        await all_follow(self.context.topology(), self._route.source, self._route.target, tls=self.context.tls)
        taken = leaves_of(self._route.xx, self._days("days"))
        loop, pid = asyncio.get_running_loop(), self.source.get_server_pid()
        try:
            self.context.progress(f"comparing {self._route.name}", 0, 1)
            await self._catch_up()
            settled = await settle_old(self.source, self.target, taken, self._route.slots)
            await self._catch_up()
            await self._check_days()
            async with self.context.publishing():
                began = loop.time()
                await cutover.run_within(self._hold_to_switch(taken, settled), CUTOVER_S, (self.target, self.source))
                stall_s = loop.time() - began
        except BaseException as error:
            reason = self._as_reason(error)
            # A switch that was written counts, however the try ended: the next run continues from there.
            try:
                if not await cutover.switched(self.context, self._route):
                    await self._back_out(pid, differ=isinstance(error, InvariantBroken))
            except Exception as failed:  # noqa: BLE001 - raised, with what had come before
                # Both are said: what ended the cutover, and that its end is not complete.
                raise _with(reason, failed) from error
            if reason is error:
                raise
            raise reason from None
        self.figures["stall_s"] = round(stall_s, 4)

    async def _hold_to_switch(self, taken: Sequence[Leaf], settled: Settled) -> None:
        """Do all that requests wait for: hold, fence, last rows, comparison, switch."""
        await self.context.change(lambda old: hold(old, self._route.xx), self._proof)
        await self._notify_servers()
        await self.journal.done("held")
        await leaves.fence(self.source, taken)
        await self.journal.done("fenced", fund_cursor=await sweeper_cursor(self.source))
        await self._check_days()
        await self._replication.wait_for_watermark()
        copied = await copy_auxiliary(self.source, self.target, self._route.slots)
        self.figures.update(total(await compare(self.source, self.target, taken, settled)), **copied)
        await self.journal.done("equal")
        await cutover.make_durable(self.target)
        await self._switch()

    def _as_reason(self, error: BaseException) -> BaseException:
        if not isinstance(error, TimeoutError):
            return error
        text = f"{self._route.name} would have been held for more than {CUTOVER_S} s; try at a quieter hour"
        return Unavailable("stall_too_long", text)

    async def _check_days(self) -> None:
        """Raise Unavailable `leaves_changed` if the days to take are not those that are followed."""
        if await all_days(self.context, self.source, self._route) != (self._days("days"), self._days("left")):
            raise Unavailable("leaves_changed", f"days of {self._route.name} came or went just now; run it again")

    async def _back_out(self, pid: int, *, differ: bool) -> None:
        """Let the source serve on and the copy follow again; if the copies differ, undo the move.

        Nothing is done if the move lock of our backend `pid` was lost and another process goes on with this move.
        """
        if await cutover.taken_over(self.context, self._route, pid):
            return
        try:
            await cutover.release_traffic(self.context, self.journal)
        except Unavailable as error:
            if error.code == "move_lock_lost":  # another process has taken it over since, and released the traffic
                return
            raise
        if differ:
            await self.undo()
        else:
            await cutover.delete_copies_at_target(self.target, self._route)

    async def _notify_servers(self) -> None:
        for connection in (self.source, self.target):
            await notify_servers(connection)

    async def _switch(self) -> None:
        """Give the target all days after the last that stays, in one write of the topology file. Idempotent.

        Only if the database is still held: whoever has released it has lifted the fence as well, and rows may have been
        written since the comparison. Raises Unavailable `hold_lost`; nothing is changed then.
        """
        left, route = self._days("left"), self._route
        since = max(left) + timedelta(days=1) if left else None

        def switch(old: Topology) -> Topology:
            if old.set_for_database(route.xx).name == route.target:
                return old
            if route.name not in old.held:
                text = f"another process has ended the cutover of {route.name} meanwhile; run this again"
                raise Unavailable("hold_lost", text)
            return assign(old, route.xx, route.target, since)

        await self.context.change(switch, self._proof)

    async def _proof(self) -> None:
        """Show that this tool still has the move; raises Unavailable `move_lock_lost`."""
        await self.journal.prove(self.target)

    async def _clear(self) -> list[date]:
        """End the replication, rewind the new SET's sweeper, drop the old copies; returns days that stay."""
        left = self._days("left")
        if not self._reached("settled"):
            await self._replication.end()
            await all_follow(self.context.topology(), self._route.source, self._route.target, tls=self.context.tls)
            # A journal of an older version has no cursor: the sweeper then looks at all funds again.
            await rewind_sweeper(self.target, self.journal.entry.note.get("fund_cursor", 0))
            await self.journal.done("settled")
        if not self._reached("cleared"):
            await asyncio.sleep(self.context.grace_s)
            await self._compare_old_again()
            self.context.must_hold(self._route.target, self._route.xx, self._days("days"))
            await delete_moved(self.source, self._route.slots)
            await leaves.drop(self.source, leaves_of(self._route.xx, self._days("days")))
            await self.journal.done("cleared")
        if left:
            await self.journal.becomes_by_time(max(left) + timedelta(days=1))
        else:
            await self.journal.done(DONE, **self.figures)
        return left

    async def _compare_old_again(self) -> None:
        """Before the drop, compare the rows that were old when the source was fenced: the target may have lost some.

        It may have been restored since the switch, if the tool was stopped in between. Its younger rows have gone on.
        Raises InvariantBroken `copies_are_equal`; both copies stay then.
        """
        both = await days_on_both(self._route, self.source, self.target, self._days("days"))
        await settle_old(self.source, self.target, leaves_of(self._route.xx, both), self._route.slots)

    async def undo(self) -> None:
        """Remove all that the move has made at the target, and end the replication: the move is aborted. Idempotent.

        Call it neither after the switch nor within the cutover.
        """
        route = self._route
        await delete_copies(self.target, route.slots)
        await self._replication.end()
        days = sorted({*self._days("days"), *self._days("gone"), *await leaves.hot_days(self.source, route.xx)})
        self.context.must_hold(route.source, route.xx, days)
        await leaves.drop(self.target, leaves_of(route.xx, days))
        await self.journal.done(ABORTED)


def _with(reason: BaseException, failed: Exception) -> BaseException:
    """Return `reason` with the failure that followed it in its sentence; any other error gives way to the failure."""
    said = getattr(failed, "detail", None) or f"{type(failed).__name__}: {failed}"
    if isinstance(reason, InvariantBroken):
        return InvariantBroken(reason.check, f"{reason.detail}; and it could not be undone: {said}; run this again")
    if isinstance(reason, HongbaoError):
        # Any other code of `reason` may mean that the move goes on by itself; it must not while requests are held.
        code = reason.code if reason.code == "stall_too_long" else getattr(failed, "code", "still_held")
        return Unavailable(code, f"{reason.detail}; and the traffic could not be released: {said}; run this again")
    return failed
