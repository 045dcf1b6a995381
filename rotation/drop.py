"""Dropping: the one step that destroys, for days that are verified, read back once more, and past their retention."""

from datetime import date, timedelta
from functools import partial
from typing import Any

from archive.states import State
from envelope.errors import Refused
from rotation import archiving, crash, register
from rotation.crash import Point
from rotation.detach import drop_leafless
from rotation.patience import insist
from rotation.plan import first_day_to_drop
from rotation.register import Entry, Operator
from rotation.sessions import sessions
from rotation.steps import Result, Rotation
from schema import names
from schema.day_tables import check_clock
from schema.names import Kind


async def drop_day(rotation: Rotation, day: date, today: date, by: Operator, *, retention_days: int) -> Result:
    """Drop the cold tables of every database of the day; each in a transaction with its entry and its log line.

    Each archive is read back and compared once more just before. Refused: `clock_wrong`, `day_unknown`,
    `day_not_verified`, `retention_not_over`, `rotation_busy`, `no_archive`, and what the archive refuses; Unavailable:
    `rotation_waits`, `database_unavailable`.
    Repeatable: what was dropped stays dropped, the rest follows.
    """
    may = first_day_to_drop(day, retention_days)
    async with sessions(rotation.target) as of:
        connection = of.work
        await check_clock(connection, today)
        entries = await register.entries(connection, day)
        if not entries:
            raise Refused("day_unknown", f"{rotation.target.name} has no entry of {day} in its register")
        behind = [one for one in entries if one.state.rank < State.VERIFIED.rank]
        if behind:
            raise Refused(
                "day_not_verified",
                f"db_{behind[0].xx:02d} of {day} is {behind[0].state.value}; only verified days are dropped",
            )
        if today < may:
            raise Refused("retention_not_over", f"{day} is kept until {may - timedelta(days=1)}; nothing was dropped")
        waiting = [one for one in entries if one.state is State.VERIFIED]
        for number, entry in enumerate(waiting, 1):
            await archiving.check(of, rotation.its_archive, entry, entry.manifest_sha256)
            crash.reach(Point.DROP_CHECKED)
            await insist(
                connection, partial(_drop, connection, entry, by), on=f"public.{names.day_table(Kind.CLAIM, day)}"
            )
            crash.reach(Point.DROPPED_ONE)
            rotation.progress("dropping", number, len(waiting))
        return Result(day, {one.xx: one.state for one in await register.entries(connection, day)})


async def _drop(connection: Any, entry: Entry, by: Operator) -> None:
    async with register.step(connection):
        await connection.execute(f"DROP SCHEMA {names.cold(entry.xx, entry.day)} CASCADE")
        crash.reach(Point.DROPPING)
        await drop_leafless(connection, entry.day)
        await register.advance(connection, entry.day, entry.xx, State.DROPPED)
        await register.note(connection, by, "dropped", entry.day, entry.xx, {"manifest": entry.manifest_sha256})
