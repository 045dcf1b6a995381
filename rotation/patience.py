"""Statements that wait for locks: 200 ms at a time, again after a pause with jitter, and not for ever."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from envelope.errors import Unavailable
from rotation.limits import PATIENCE_S
from runtime import locks

_HOLDERS = """
SELECT DISTINCT l.pid, coalesce(a.usename, '?') AS usename, a.application_name
FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.relation = ANY($1::oid[]) AND l.granted AND l.pid <> pg_backend_pid()
"""

T = TypeVar("T")


async def insist(connection: Any, work: Callable[[], Awaitable[T]], *, on: str, patience_s: float = PATIENCE_S) -> T:
    """Await `work()` until it gets its locks; it must be whole or nothing, or safe to repeat.

    Raises Unavailable `rotation_waits` after `patience_s`, naming who holds the table `on`.
    """
    try:
        return await locks.insist(work, patience_s=patience_s)
    except Exception as error:
        if not locks.is_locked(error):
            raise
        raise Unavailable(
            "rotation_waits",
            f"{on} was held for {patience_s:g} s by {await _holders(connection, on)}; what is done stays, run it again",
        ) from error


async def _holders(connection: Any, table: str) -> str:
    oids = await connection.fetch(
        "SELECT relid::oid AS oid FROM pg_partition_tree(to_regclass($1)) UNION ALL SELECT relid::oid FROM "
        "pg_partition_ancestors(to_regclass($1))",
        table,
    )
    rows = await connection.fetch(_HOLDERS, [row["oid"] for row in oids])
    return ", ".join(f"process {row['pid']} ({row['usename']})" for row in rows[:5]) or "somebody who has just left"
