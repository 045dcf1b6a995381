"""Statements that wait for locks: 200 ms at a time, again after a pause with jitter, and not for ever."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import stamina

from envelope.errors import Unavailable
from rotation.limits import PATIENCE_S, PAUSE_MOST_S, PAUSE_S

_LOCKED = ("55P03", "40P01")
"""lock_not_available and deadlock_detected: nothing was done."""
_HOLDERS = """
SELECT DISTINCT l.pid, coalesce(a.usename, '?') AS usename, a.application_name
FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.relation = ANY($1::oid[]) AND l.granted AND l.pid <> pg_backend_pid()
"""

T = TypeVar("T")


def is_locked(error: Exception) -> bool:
    """Say whether `error` means that somebody held a lock, and nothing was done."""
    return getattr(error, "sqlstate", None) in _LOCKED


async def insist(connection: Any, work: Callable[[], Awaitable[T]], *, on: str, patience_s: float = PATIENCE_S) -> T:
    """Await `work()` until it gets its locks; it must be whole or nothing, or safe to repeat.

    Raises Unavailable `rotation_waits` after `patience_s`, naming who holds the table `on`.
    """
    try:
        async for attempt in stamina.retry_context(
            on=is_locked,
            attempts=None,
            timeout=patience_s,
            wait_initial=PAUSE_S,
            wait_max=PAUSE_MOST_S,
            wait_jitter=PAUSE_S,
        ):
            with attempt:
                return await work()
    except Exception as error:
        if not is_locked(error):
            raise
        raise Unavailable(
            "rotation_waits",
            f"{on} was held for {patience_s:g} s by {await _holders(connection, on)}; what is done stays, run it again",
        ) from error
    raise AssertionError  # pragma: no cover - the context ends by return or by raise


async def _holders(connection: Any, table: str) -> str:
    oids = await connection.fetch(
        "SELECT relid::oid AS oid FROM pg_partition_tree(to_regclass($1)) UNION ALL SELECT relid::oid FROM "
        "pg_partition_ancestors(to_regclass($1))",
        table,
    )
    rows = await connection.fetch(_HOLDERS, [row["oid"] for row in oids])
    return ", ".join(f"process {row['pid']} ({row['usename']})" for row in rows[:5]) or "somebody who has just left"
