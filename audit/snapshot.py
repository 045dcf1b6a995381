"""Snapshots of the databases, and where a SET's rows are in one: hot, in a cold day's own tables, or in the archive.

A snapshot fixes rows, not tables: a day that is detached or dropped meanwhile would be missed. So the audit locks a
SET's tables (ACCESS SHARE) before it takes the snapshot and holds the locks to its end. Opens do not wait for them;
detaching or dropping a day does, and old row versions cannot be vacuumed meanwhile.
"""

from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import date
from typing import Any

from archive.register import RegisterEntry, read_register
from errors import Unavailable
from runtime import postgres, sql
from runtime.postgres import Connection
from schema import names
from schema.day_tables import known_days
from schema.names import TableKind
from sharding.ids import end_id, first_id
from sharding.slots import database_of

_ENVELOPES = sql.read("audit", "envelopes")
_CLAIMS = sql.read("audit", "claims")
_RECEIVERS = sql.read("audit", "receivers")
_DAY_TABLES = sql.read("audit", "day_tables")
_SETTINGS = {"plan_cache_mode": "force_custom_plan", "row_security": "off"}
"""With `row_security` off a policy that hides rows from the audit's role is an error and not a smaller table."""
_TRIES = 5
_NO_TABLE = "42P01"


@dataclass
class Rows:
    """The headers, the claims and the named receivers of one part, each in order of envelope ID."""

    headers: AsyncIterator[Any]
    claims: AsyncIterator[Any]
    receivers: AsyncIterator[Any]


@dataclass(frozen=True)
class DayPart:
    """One day and the slots whose rows are in one place: the archive of database `xx`, or Postgres if that is None.

    `hot`: read through the hot tables. `entries`: the register's entries for the day, by database.
    """

    day: date
    slots: Collection[int]
    entries: dict[int, RegisterEntry]
    hot: bool = False
    xx: int | None = None


async def snapshot(stack: AsyncExitStack, dsn: str) -> Connection:
    """Open a connection whose one transaction sees the database as it is now; closed with the stack."""
    connection = await stack.enter_async_context(postgres.connected(dsn, **_SETTINGS))
    await freeze(stack, connection)
    return connection


async def freeze(stack: AsyncExitStack, connection: Connection) -> None:
    """Give an open connection one snapshot, taken now, until the stack is closed."""
    await stack.enter_async_context(connection.transaction(isolation="repeatable_read", readonly=True))
    await connection.fetchval("SELECT 1")  # the snapshot is taken by the first statement


async def set_snapshot(stack: AsyncExitStack, dsn: str) -> Connection:
    """As `snapshot`, with a SET's tables locked, so that no day leaves them until the stack is closed.

    Raises Unavailable `days_are_moving` if days are detached or dropped in each of _TRIES attempts.
    """
    connection = await stack.enter_async_context(postgres.connected(dsn, **_SETTINGS))
    for _ in range(_TRIES):
        tables = await _day_tables(connection)
        transaction = connection.transaction(isolation="repeatable_read", readonly=True)
        await transaction.start()
        try:
            # LOCK TABLE takes no snapshot; the first query after it does.
            await connection.execute(_lock(tables))
            if await _day_tables(connection) <= tables:
                stack.push_async_callback(_end, connection, transaction)
                return connection
        except Exception as error:
            if getattr(error, "sqlstate", "") != _NO_TABLE:
                raise
        await transaction.rollback()
    raise Unavailable("days_are_moving", "days are being detached or dropped just now; audit again")


async def day_parts(connection: Connection, slots_on: Callable[[date], Collection[int]]) -> list[DayPart]:
    """Return where the rows of this SET's slots are, each day and slot in one part, in order of day.

    `slots_on` gives the slots that the SET has on a day.
    """
    register = await read_register(connection)
    cold = {key: one for key, one in register.items() if one.cold}
    by_day: dict[date, set[int]] = defaultdict(set)
    for (day, xx), one in cold.items():
        if not one.dropped:
            by_day[day].add(xx)
    away: dict[date, set[int]] = defaultdict(set)
    for day, xx in cold:
        away[day].add(xx)
    # A day may be hot in some databases and cold in others: a database that moved in brings its archived days.
    parts = [
        DayPart(
            day,
            [slot for slot in sorted(slots_on(day)) if database_of(slot) not in away[day]],
            {xx: one for (its, xx), one in register.items() if its == day and not one.cold},
            hot=True,
        )
        for day in await known_days(connection)
    ]
    parts += [
        DayPart(day, _of(slots_on(day), some), {xx: cold[day, xx] for xx in some})
        for day, some in by_day.items()
        if _of(slots_on(day), some)
    ]
    parts += [
        DayPart(day, _of(slots_on(day), {xx}), {xx: one}, xx=xx)
        for (day, xx), one in cold.items()
        if one.dropped and _of(slots_on(day), {xx})
    ]
    return sorted(parts, key=lambda part: (part.day, part.xx or 0))


def set_queries() -> tuple[str, ...]:
    """Return the queries of the rows of a part: headers, claims, receivers."""
    return _ENVELOPES, _CLAIMS, _RECEIVERS


def in_tables(part: DayPart) -> Callable[[str], str]:
    """Return what rewrites a query for the tables in which a part's rows are."""
    return str if part.hot else lambda query: of_day(query, part.day)


def from_postgres(connection: Connection, part: DayPart) -> Rows:
    """Return the rows of a part that is in Postgres."""
    tables = in_tables(part)
    bounds = first_id(part.day), end_id(part.day), part.slots
    return Rows(
        connection.cursor(tables(_ENVELOPES), *bounds, prefetch=500).__aiter__(),
        connection.cursor(tables(_CLAIMS), *bounds, prefetch=2_000).__aiter__(),
        connection.cursor(tables(_RECEIVERS), *bounds, prefetch=500).__aiter__(),
    )


def of_day(query: str, day: date) -> str:
    """Rewrite a query over the hot tables to one over a cold day's own tables."""
    for kind, alias in ((TableKind.ENVELOPE, "e"), (TableKind.CLAIM, ""), (TableKind.GUEST, "")):
        hot = f"FROM {kind.value} {alias}".rstrip() + " WHERE"
        own = f"FROM public.{names.day_table(kind, day)} {alias}".rstrip() + " WHERE"
        query = query.replace(hot, own)
    return query


def _of(slots: Collection[int], databases: Collection[int]) -> list[int]:
    return sorted(slot for slot in slots if database_of(slot) in databases)


async def _end(connection: Connection, transaction: Any) -> None:
    if not connection.is_closed():
        await transaction.rollback()


async def _day_tables(connection: Connection) -> set[str]:
    """Return the tables of detached days that this role may read."""
    return {row["name"] for row in await connection.fetch(_DAY_TABLES)}


def _lock(day_tables: Collection[str]) -> str:
    ours = [*(kind.value for kind in TableKind), *sorted(day_tables)]
    return f"LOCK TABLE {', '.join(f'ONLY public.{name}' for name in ours)} IN ACCESS SHARE MODE"
