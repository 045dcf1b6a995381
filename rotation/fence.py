"""The fence round a day: a row trigger on its tables and leaves that refuses every write with SQLSTATE HB001.

Privileges of a leaf are not asked when a row comes through the partitioned parent, so no REVOKE can keep writers of one
date out. Making a trigger waits for the writers of that day (SHARE ROW EXCLUSIVE) and for nobody else, and lets no new
one in before it is there. With the fence come the grants by which the day is read once it is on its own.
"""

from datetime import date
from functools import partial
from typing import Any

from rotation import crash
from rotation.patience import insist
from schema import names
from schema.names import Kind

TRIGGER = "day_fence"
_READERS = "hongbao_setnode, hongbao_audit"
_HAS = """
SELECT count(*) FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
WHERE t.tgname = $1 AND t.tgenabled = 'A' AND c.relnamespace = 'public'::regnamespace AND c.relname = ANY($2::text[])
"""


async def is_fenced(connection: Any, day: date, *, least: int = len(Kind)) -> bool:
    """Say whether all tables of the day have their fence, or at `least` so many."""
    tables = [names.day_table(kind, day) for kind in Kind]
    count: int = await connection.fetchval(_HAS, TRIGGER, tables)
    return count >= least


async def fence(connection: Any, day: date) -> None:
    """Keep all writers out of the day; durable when it returns; nothing of it is being written then. Repeatable."""
    for number, kind in enumerate(Kind):
        table = names.day_table(kind, day)
        await insist(connection, partial(_fence_one, connection, table, day), on=f"public.{table}")
        if number == 0:
            crash.reach(crash.Point.FENCED_ONE)


async def _fence_one(connection: Any, table: str, day: date) -> None:
    async with connection.transaction():
        await connection.execute(
            f"CREATE OR REPLACE TRIGGER {TRIGGER} BEFORE INSERT OR UPDATE OR DELETE ON public.{table} "
            f"FOR EACH ROW EXECUTE FUNCTION refuse_closed_day('{day.isoformat()}')"
        )
        await connection.execute(f"ALTER TABLE public.{table} ENABLE ALWAYS TRIGGER {TRIGGER}")
        await connection.execute(f"GRANT SELECT ON public.{table} TO {_READERS}")


async def unfence(connection: Any, day: date) -> None:
    """Let writers in again: the day could not be proven behind its fence."""
    for kind in Kind:
        table = names.day_table(kind, day)
        statement = f"DROP TRIGGER IF EXISTS {TRIGGER} ON public.{table}"
        await insist(connection, partial(connection.execute, statement), on=f"public.{table}")
