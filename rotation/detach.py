"""Detaching: a day's three tables leave the hot ones, then their leaves the names that come round next month.

`DETACH … CONCURRENTLY` has two phases. After the first, new statements do not see the day; the second waits for those
that may still, without a lock that anybody's open could meet. Where they take longer than the lock timeout the detach
stays pending, and is finalized by later tries, or by the next run.
"""

from datetime import date, datetime
from functools import partial
from typing import Any

from envelope.errors import InvariantBroken
from rotation import crash
from rotation.patience import insist
from runtime.locks import is_locked
from schema import names
from schema.names import Kind
from sharding.slots import slots_of

ORDER = (Kind.ENVELOPE, Kind.GUEST, Kind.CLAIM)
"""Headers first: who reads through the hot tables finds nothing of the day then, never an envelope without claims."""
_PENDING = """
SELECT c.relname, i.inhdetachpending AS pending FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = to_regclass($1) AND (i.inhdetachpending OR c.relname = $2)
"""
_STANDING = "SELECT leaf FROM unnest($1::text[]) AS leaf WHERE to_regclass(leaf) IS NOT NULL ORDER BY leaf"

_LEAVES = "SELECT count(*) FROM pg_inherits WHERE inhparent = to_regclass($1)"


async def detach(connection: Any, day: date) -> None:
    """Detach what is still attached, and finalize what is pending; `connection` is outside a transaction. Repeatable.

    Raises Unavailable `rotation_waits` while somebody holds a table; opens of other days go on meanwhile.
    """
    for kind in ORDER:
        await insist(connection, partial(_detach_one, connection, kind, day), on=f"public.{kind.value}")
        if kind is ORDER[0]:
            crash.reach(crash.Point.DETACHED_ONE)


async def _detach_one(connection: Any, kind: Kind, day: date) -> None:
    """Make one try at one table, from wherever the last one left it."""
    parent, table = f"public.{kind.value}", names.day_table(kind, day)
    rows = await connection.fetch(_PENDING, parent, table)
    for row in rows:
        if row["pending"]:
            # Also that of another day, which an earlier run left: Postgres bears one at a time.
            other = names.day_table(kind, datetime.strptime(row["relname"][-8:], "%Y%m%d").date())  # noqa: DTZ007 - a date
            await connection.execute(f"ALTER TABLE {parent} DETACH PARTITION public.{other} FINALIZE")
    if any(row["relname"] == table and not row["pending"] for row in rows):
        try:
            await connection.execute(f"ALTER TABLE {parent} DETACH PARTITION public.{table} CONCURRENTLY")
        except Exception as error:
            if is_locked(error):
                crash.reach(crash.Point.DETACH_PENDING)
            raise


async def move_leaves(connection: Any, xx: int, day: date) -> int:
    """Move the leaves of one database and detached day to their cold schema, inside the caller's transaction.

    Returns how many were moved: 0 where all had been.
    """
    cold, leaves = names.cold(xx, day), await _standing(connection, xx, day)
    await connection.execute(f"CREATE SCHEMA IF NOT EXISTS {cold}")
    if leaves:
        await connection.execute(";".join(f"ALTER TABLE {leaf} SET SCHEMA {cold}" for leaf in leaves))
    return len(leaves)


async def drop_strangers(connection: Any, xx: int, day: date) -> int:
    """Drop the empty leaves of a database whose money is another SET's on this day, inside the caller's transaction.

    They were made ahead before the database moved. Raises InvariantBroken where one is not empty. Returns how many.
    """
    leaves = await _standing(connection, xx, day)
    for leaf in leaves:
        if await connection.fetchval(f"SELECT EXISTS (SELECT FROM {leaf})"):  # noqa: S608 - digits
            raise InvariantBroken("strangers_are_empty", f"{leaf} of {day} has rows and belongs to another SET")
    if leaves:
        await connection.execute(f"DROP TABLE {', '.join(leaves)}")
    return len(leaves)


async def drop_leafless(connection: Any, day: date) -> int:
    """Drop those of a day's three tables under which no leaf is, inside the caller's transaction; returns how many."""
    gone = 0
    for kind in Kind:
        table = f"public.{names.day_table(kind, day)}"
        if await connection.fetchval("SELECT to_regclass($1) IS NULL", table):
            continue
        # Locked first: who is making leaves under it is waited for, and seen.
        await connection.execute(f"LOCK TABLE ONLY {table} IN ACCESS EXCLUSIVE MODE")
        if await connection.fetchval(_LEAVES, table) == 0:
            await connection.execute(f"DROP TABLE {table}")
            gone += 1
    return gone


async def _standing(connection: Any, xx: int, day: date) -> list[str]:
    """Return the leaves of a database and day that have not left its schema."""
    leaves = {names.leaf(kind, slot, day) for kind in Kind for slot in slots_of(xx)}
    return [row["leaf"] for row in await connection.fetch(_STANDING, sorted(leaves))]
