"""Where the rows of a SET are, as one snapshot has them: hot, in a cold day's own tables, or in the archive.

The snapshot holds still what it sees. Tables are opened as they are now, not as the snapshot saw them, so a day that is
detached or dropped meanwhile would be missed: the audit locks the tables against that (ACCESS SHARE, which only a
detach, a drop and the like have to wait for) before the snapshot is taken.
"""

from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import date
from typing import Any

from archive.register import Standing, read_register
from audit import queries
from envelope.errors import Unavailable
from runtime import postgres
from schema import names
from schema.day_tables import known_days
from schema.names import Kind
from sharding.ids import end_id, first_id
from sharding.slots import database_of

_ENVELOPES = queries.read("envelopes")
_CLAIMS = queries.read("claims")
_DAY_TABLES = queries.read("day_tables")
_TRIES = 5
_NO_TABLE = "42P01"


@dataclass
class Rows:
    """The headers and the claims of one piece, each in order of ID."""

    headers: AsyncIterator[Any]
    claims: AsyncIterator[Any]


@dataclass(frozen=True)
class Piece:
    """One day, and the slots whose rows lie in one place. `xx` says of which archive; None: in Postgres.

    `standings` are the rows of the register that speak of it, by database.
    """

    day: date
    slots: Collection[int]
    standings: dict[int, Standing]
    hot: bool = False
    xx: int | None = None


async def set_snapshot(stack: AsyncExitStack, dsn: str) -> Any:
    """Open a connection whose one transaction sees a SET as it is now, and no day leaves it; closed with the stack.

    Raises Unavailable `days_are_moving` when days go from one state to the next faster than they can be locked.
    """
    connection = await postgres.connect(dsn, plan_cache_mode="force_custom_plan")
    stack.push_async_callback(connection.close, timeout=2.0)
    for _ in range(_TRIES):
        tables = await _day_tables(connection)
        transaction = connection.transaction(isolation="repeatable_read", readonly=True)
        await transaction.start()
        try:
            # Takes no snapshot; the first query after it does.
            await connection.execute(_lock(tables))
            if await _day_tables(connection) <= tables:
                stack.push_async_callback(_end, connection, transaction)
                return connection
        except Exception as error:
            if getattr(error, "sqlstate", "") != _NO_TABLE:
                raise
        await transaction.rollback()
    raise Unavailable("days_are_moving", "days are being detached or dropped just now; audit again")


async def pieces_of(connection: Any, slots_on: Callable[[date], Collection[int]]) -> list[Piece]:
    """Return where the rows of the slots that live here on each day are, every day and slot once, in order of day."""
    register = await read_register(connection)
    cold = {key: one for key, one in register.items() if one.cold}
    by_day: dict[date, set[int]] = defaultdict(set)
    for (day, xx), one in cold.items():
        if not one.dropped:
            by_day[day].add(xx)
    away: dict[date, set[int]] = defaultdict(set)
    for day, xx in cold:
        away[day].add(xx)
    # A day may be hot in some databases and cold in others: one that moved here brings its archived days along.
    pieces = [
        Piece(
            day,
            [slot for slot in sorted(slots_on(day)) if database_of(slot) not in away[day]],
            {xx: one for (its, xx), one in register.items() if its == day and not one.cold},
            hot=True,
        )
        for day in await known_days(connection)
    ]
    pieces += [
        Piece(day, _of(slots_on(day), some), {xx: cold[day, xx] for xx in some})
        for day, some in by_day.items()
        if _of(slots_on(day), some)
    ]
    pieces += [
        Piece(day, _of(slots_on(day), {xx}), {xx: one}, xx=xx)
        for (day, xx), one in cold.items()
        if one.dropped and _of(slots_on(day), {xx})
    ]
    return sorted(pieces, key=lambda piece: (piece.day, piece.xx or 0))


def from_postgres(connection: Any, piece: Piece) -> Rows:
    """Give the rows of a piece that Postgres holds."""
    tables: Callable[[str], str] = str if piece.hot else lambda query: of_day(query, piece.day)
    bounds = first_id(piece.day), end_id(piece.day), piece.slots
    return Rows(
        connection.cursor(tables(_ENVELOPES), *bounds, prefetch=500).__aiter__(),
        connection.cursor(tables(_CLAIMS), *bounds, prefetch=2_000).__aiter__(),
    )


def of_day(query: str, day: date) -> str:
    """Return a query over the hot tables as one over a cold day's own."""
    for kind, alias in ((Kind.ENVELOPE, "e"), (Kind.CLAIM, "")):
        hot = f"FROM {kind.value} {alias}".rstrip() + " WHERE"
        own = f"FROM public.{names.day_table(kind, day)} {alias}".rstrip() + " WHERE"
        query = query.replace(hot, own)
    return query


def _of(slots: Collection[int], databases: Collection[int]) -> list[int]:
    return sorted(slot for slot in slots if database_of(slot) in databases)


async def _end(connection: Any, transaction: Any) -> None:
    if not connection.is_closed():
        await transaction.rollback()


async def _day_tables(connection: Any) -> set[str]:
    """Return the tables of detached days that we may read."""
    return {row["name"] for row in await connection.fetch(_DAY_TABLES)}


def _lock(day_tables: Collection[str]) -> str:
    ours = [*(kind.value for kind in Kind), *sorted(day_tables)]
    return f"LOCK TABLE {', '.join(f'ONLY public.{name}' for name in ours)} IN ACCESS SHARE MODE"
