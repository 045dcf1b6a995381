"""Detaching: a day's three tables leave the hot tables, then their leaves leave the names that next month needs.

`DETACH … CONCURRENTLY` has two phases. After the first, new statements do not see the day. The second waits for the
statements that may still see it, without a lock that an open would wait for. If these take longer than the lock
timeout, the detach stays pending, and the next try or the next run finalizes it. `DETACH … FINALIZE` waits for more:
for each transaction of the database that has an older snapshot, whatever tables it reads, such as a dump or a report.
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import date, datetime
from functools import partial

from days import crash_points
from days.limits import HOLDERS_SHOWN
from days.retry import named_processes
from errors import InvariantBroken
from rotation.limits import LOCK_RETRY, WATCH_S
from rotation.points import Point
from runtime.postgres import Connection
from runtime.postgres.locks import is_locked
from schema import names
from schema.names import TableKind
from sharding.slots import slots_of

Watcher = Callable[[], Awaitable[Connection]]

ORDER = (TableKind.ENVELOPE, TableKind.GUEST, TableKind.CLAIM)
"""Headers first: a reader of the hot tables then finds nothing of the day, never an envelope without its claims."""
_PENDING = """
SELECT c.relname, i.inhdetachpending AS pending FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = to_regclass($1) AND (i.inhdetachpending OR c.relname = $2)
"""
_WAITED_FOR = """
SELECT b.pid, coalesce(a.usename, '?') AS usename
FROM unnest(pg_blocking_pids($1)) AS b (pid) LEFT JOIN pg_stat_activity a ON a.pid = b.pid LIMIT $2
"""
_STANDING = "SELECT leaf FROM unnest($1::text[]) AS leaf WHERE to_regclass(leaf) IS NOT NULL ORDER BY leaf"
_LEAVES = "SELECT count(*) FROM pg_inherits WHERE inhparent = to_regclass($1)"


async def detach(connection: Connection, day: date, watcher: Watcher) -> None:
    """Detach what is still attached and finalize what is pending; `connection` is outside a transaction. Idempotent.

    Raises Unavailable `rotation_waits` if a process holds a table for too long, or a detach that is pending waits for
    an old snapshot; it names the process. Opens of other days are not delayed. `watcher`: a second connection of the
    owner's, which is asked for only to see what the first waits for.
    """
    for kind in ORDER:
        await LOCK_RETRY.run(
            connection,
            partial(_detach_one, connection, kind, day),
            tables=[f"public.{kind.value}"],
            waits_for=partial(_waits_for, connection, watcher, kind, day),
        )
        if kind is ORDER[0]:
            crash_points.reach(Point.DETACHED_ONE)


async def _detach_one(connection: Connection, kind: TableKind, day: date) -> None:
    """Make one try at one table: finalize what an earlier try left pending, then detach it if it is still attached."""
    parent, table = f"public.{kind.value}", names.day_table(kind, day)
    rows = await connection.fetch(_PENDING, parent, table)
    for row in rows:
        if row["pending"]:
            # Also one of another day that an earlier run left: a table can have one pending detach at a time.
            other = names.day_table(kind, datetime.strptime(row["relname"][-8:], "%Y%m%d").date())  # noqa: DTZ007 - a date
            await connection.execute(f"ALTER TABLE {parent} DETACH PARTITION public.{other} FINALIZE")
    if any(row["relname"] == table and not row["pending"] for row in rows):
        try:
            await connection.execute(f"ALTER TABLE {parent} DETACH PARTITION public.{table} CONCURRENTLY")
        except Exception as error:
            if is_locked(error):
                crash_points.reach(Point.DETACH_PENDING)
            raise


async def _waits_for(connection: Connection, watcher: Watcher, kind: TableKind, day: date) -> str:
    """Say what a pending detach waits for, by one more try that is watched; "" if none is pending any more.

    Which transactions have a snapshot is not for the owner to see, but what a statement waits for is, while it waits.
    """
    rows = await connection.fetch(_PENDING, f"public.{kind.value}", names.day_table(kind, day))
    pending = next((row["relname"] for row in rows if row["pending"]), None)
    if pending is None:
        return ""
    found: dict[int, str] = {}
    watching, waiting = await watcher(), connection.get_server_pid()
    attempt = asyncio.ensure_future(_detach_one(connection, kind, day))
    try:
        while not attempt.done():
            for row in await watching.fetch(_WAITED_FOR, waiting, HOLDERS_SHOWN):
                found[row["pid"]] = row["usename"]
            await asyncio.wait({attempt}, timeout=WATCH_S)
    finally:
        await asyncio.wait({attempt})  # its lock timeout ends it
    error = attempt.exception()
    if error is not None and not is_locked(error):
        raise error
    held_by = named_processes(found) or "one that has ended meanwhile"
    return (
        f"the detach of public.{pending} is not complete: Postgres lets it end after every transaction of this "
        f"database with an older snapshot, whatever it reads, such as a dump or a report: {held_by}; end it, or wait"
    )


async def move_leaves(connection: Connection, xx: int, day: date) -> int:
    """Move the leaves of one database and detached day to their cold schema, inside the caller's transaction.

    Returns how many it moved: 0 if all had been moved before.
    """
    cold, leaves = names.cold(xx, day), await _standing(connection, xx, day)
    await connection.execute(f"CREATE SCHEMA IF NOT EXISTS {cold}")
    if leaves:
        await connection.execute(";".join(f"ALTER TABLE {leaf} SET SCHEMA {cold}" for leaf in leaves))
    return len(leaves)


async def drop_foreign(connection: Connection, xx: int, day: date) -> int:
    """Drop the empty leaves of a database that is another SET's on this day, inside the caller's transaction.

    They were made ahead before the database moved. Raises InvariantBroken if one has rows. Returns how many it dropped.
    """
    leaves = await _standing(connection, xx, day)
    for leaf in leaves:
        if await connection.fetchval(f"SELECT EXISTS (SELECT FROM {leaf})"):  # noqa: S608 - digits
            raise InvariantBroken("strangers_are_empty", f"{leaf} of {day} has rows and belongs to another SET")
    if leaves:
        await connection.execute(f"DROP TABLE {', '.join(leaves)}")
    return len(leaves)


async def drop_empty(connection: Connection, day: date) -> int:
    """Drop those of a day's three tables that have no leaf left, inside the caller's transaction; returns how many."""
    gone = 0
    for kind in TableKind:
        table = f"public.{names.day_table(kind, day)}"
        if await connection.fetchval("SELECT to_regclass($1) IS NULL", table):
            continue
        # Locked before the count: a leaf that another process is attaching just now is then counted, too.
        await connection.execute(f"LOCK TABLE ONLY {table} IN ACCESS EXCLUSIVE MODE")
        if await connection.fetchval(_LEAVES, table) == 0:
            await connection.execute(f"DROP TABLE {table}")
            gone += 1
    return gone


async def _standing(connection: Connection, xx: int, day: date) -> list[str]:
    """Return the leaves of a database and day that still stand in the database's hot schema."""
    leaves = {names.leaf(kind, slot, day) for kind in TableKind for slot in slots_of(xx)}
    return [row["leaf"] for row in await connection.fetch(_STANDING, sorted(leaves))]
