"""The fence round a day: a row trigger on its tables and leaves that refuses every write with SQLSTATE HB001.

A leaf's grants are not checked when a row comes through the partitioned parent, so no REVOKE keeps writers of one date
out. CREATE TRIGGER takes SHARE ROW EXCLUSIVE on that day's table: it waits for running writers of that day, and new
ones wait for it. The same transaction grants SELECT on the day's own table: once detached, it is read by that name.
"""

from datetime import date
from functools import partial

from days import crash_points
from rotation.limits import LOCK_RETRY
from rotation.points import Point
from runtime.postgres import Connection
from schema import names
from schema.names import TableKind

TRIGGER = "day_fence"
_READERS = "hongbao_setnode, hongbao_audit"
_HAS = """
SELECT count(*) FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
WHERE t.tgname = $1 AND t.tgenabled = 'A' AND c.relnamespace = 'public'::regnamespace AND c.relname = ANY($2::text[])
"""


async def is_fenced(connection: Connection, day: date, *, least: int = len(TableKind)) -> bool:
    """Say whether all three tables of the day have their fence, or at least `least` of them."""
    tables = [names.day_table(kind, day) for kind in TableKind]
    count: int = await connection.fetchval(_HAS, TRIGGER, tables)
    return count >= least


async def fence(connection: Connection, day: date) -> None:
    """Refuse all writes to the day from now on; on return no write to it is in flight. Durable, idempotent.

    One transaction a table: after a kill, or Unavailable `rotation_waits`, some may have their fence and others not.
    """
    for number, kind in enumerate(TableKind):
        table = names.day_table(kind, day)
        await LOCK_RETRY.run(connection, partial(_fence_one, connection, table, day), tables=[f"public.{table}"])
        if number == 0:
            crash_points.reach(Point.FENCED_ONE)


async def _fence_one(connection: Connection, table: str, day: date) -> None:
    async with connection.transaction():
        await connection.execute(
            f"CREATE OR REPLACE TRIGGER {TRIGGER} BEFORE INSERT OR UPDATE OR DELETE ON public.{table} "
            f"FOR EACH ROW EXECUTE FUNCTION refuse_closed_day('{day.isoformat()}')"
        )
        await connection.execute(f"ALTER TABLE public.{table} ENABLE ALWAYS TRIGGER {TRIGGER}")
        await connection.execute(f"GRANT SELECT ON public.{table} TO {_READERS}")


async def unfence(connection: Connection, day: date) -> None:
    """Allow writes again, after the day could not be proven behind its fence. Idempotent; raises as `fence`."""
    for kind in TableKind:
        table = names.day_table(kind, day)
        statement = f"DROP TRIGGER IF EXISTS {TRIGGER} ON public.{table}"
        await LOCK_RETRY.run(connection, partial(connection.execute, statement), tables=[f"public.{table}"])
