"""Dropping: the one step that destroys, of days that are verified, past their retention, and read back once more."""

from datetime import date, timedelta
from functools import partial

import asyncpg

from archive.states import State
from days import crash_points
from errors import Refused
from rotation import archiving, register
from rotation.detach import drop_empty
from rotation.limits import DEPENDENT_SHOWN, LOCK_RETRY
from rotation.plan import first_day_to_drop
from rotation.points import Point
from rotation.register import Entry, Operator
from rotation.sessions import sessions
from rotation.steps import Result, Rotation
from runtime.postgres import Connection
from schema import names
from schema.day_tables import check_clock
from schema.names import TableKind
from sharding.slots import database_name

_LEAVES = """
SELECT c.oid::regclass::text AS leaf
FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_class d ON d.oid = i.inhparent
WHERE d.relnamespace = 'public'::regnamespace AND d.relname = ANY($1::text[]) AND c.relnamespace = to_regnamespace($2)
ORDER BY 1
"""


async def drop_day(rotation: Rotation, day: date, today: date, by: Operator, *, retention_days: int) -> Result:
    """Drop the cold tables of every database of the day; each in one transaction with its entry and its log line.

    Each database's archive is read back and compared with the tables just before they are dropped. Idempotent: a call
    that failed half way is repeated, and drops the rest. `retention_days` count from the business date.

    Refused: `clock_wrong`, `day_unknown`, `day_not_verified`, `retention_not_over`, `rotation_busy`, `no_archive`,
    `step_refused`, and what the archive refuses. Unavailable: `rotation_waits`, `database_unavailable`.
    """
    may = first_day_to_drop(day, retention_days)
    async with sessions(rotation.set_access) as connections:
        connection = connections.work
        await check_clock(connection, today)
        entries = await register.entries(connection, day)
        if not entries:
            raise Refused("day_unknown", f"{rotation.set_access.name} has no entry of {day} in its register")
        behind = [one for one in entries if one.state.rank < State.VERIFIED.rank]
        if behind:
            raise Refused(
                "day_not_verified",
                f"{database_name(behind[0].xx)} of {day} is {behind[0].state.value}; only verified days are dropped",
            )
        if today < may:
            raise Refused("retention_not_over", f"{day} is kept until {may - timedelta(days=1)}; nothing was dropped")
        waiting = [one for one in entries if one.state is State.VERIFIED]
        for number, entry in enumerate(waiting, 1):
            await archiving.check(connections, rotation.its_archive, entry, entry.manifest_sha256)
            crash_points.reach(Point.DROP_CHECKED)
            claims = f"public.{names.day_table(TableKind.CLAIM, day)}"
            await LOCK_RETRY.run(connection, partial(_drop, connection, entry, by), tables=[claims])
            crash_points.reach(Point.DROPPED_ONE)
            rotation.progress("dropping", number, len(waiting))
        return Result(day, {one.xx: one.state for one in await register.entries(connection, day)})


async def _drop_leaves(connection: Connection, entry: Entry) -> None:
    """Drop the tables that were proven and archived, then their schema; nothing else.

    Raises Refused `step_refused`, naming it, if a view stands over them or another table beside them.
    """
    cold = names.cold(entry.xx, entry.day)
    tables = [names.day_table(kind, entry.day) for kind in TableKind]
    leaves = [row["leaf"] for row in await connection.fetch(_LEAVES, tables, cold)]
    try:
        if leaves:
            await connection.execute(f"DROP TABLE {', '.join(leaves)} RESTRICT")
        await connection.execute(f"DROP SCHEMA {cold} RESTRICT")
    except asyncpg.DependentObjectsStillExistError as error:
        # Postgres names up to a hundred, one a line.
        dependent = "; ".join(str(error.detail or error).splitlines()[:DEPENDENT_SHOWN])
        text = (
            f"{database_name(entry.xx)} of {entry.day} was not dropped: something that is not of the day depends on "
            f"its tables or stands in {cold}: {dependent}; drop it, or move it elsewhere, and run this again"
        )
        raise Refused("step_refused", text) from error


async def _drop(connection: Connection, entry: Entry, by: Operator) -> None:
    async with register.step(connection):
        await _drop_leaves(connection, entry)
        crash_points.reach(Point.DROPPING)
        await drop_empty(connection, entry.day)
        await register.advance(connection, entry.day, entry.xx, State.DROPPED)
        await register.note(connection, by, "dropped", entry.day, entry.xx, {"manifest": entry.manifest_sha256})
