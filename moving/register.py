"""What both SETs' registers say: which hot days can be moved now, and which must stay until they are archived."""

from collections.abc import Iterable
from datetime import date, timedelta

from days.lock import lock_days
from errors import InvariantBroken, Refused, Unavailable
from moving import leaves
from moving.context import MoveContext
from moving.route import Route
from runtime import sql
from runtime.postgres import Connection

_STATES = "SELECT day, state FROM day_register WHERE xx = $1"
_TOUCHED = "SELECT DISTINCT day FROM day_register"
_FENCED = sql.read("moving", "fenced_days")
_COPY = "SELECT * FROM day_register WHERE xx = $1 AND state = 'dropped'"


async def keep_rotation_away(route: Route, source: Connection, target: Connection) -> None:
    """Take the day lock of both SETs until these connections close: no day closes or leaves meanwhile. Idempotent.

    Raises Unavailable `rotation_busy`, naming the SET on which a rotation, or another move, is at work.
    """
    # In the same order in every process, so that one of two moves in opposite directions gets both locks.
    for name, connection in sorted({route.source: source, route.target: target}.items()):
        if not await lock_days(connection):
            text = f"a rotation or another move is at work on {name}; run this again once it is through"
            raise Unavailable("rotation_busy", text)


async def days_on_both(route: Route, source: Connection, target: Connection, days: Iterable[date]) -> list[date]:
    """Return which of `days`, which the topology gives to the target, have tables on both SETs: compared before a drop.

    Rotation is kept away until these connections close. A day that rotation has taken up at the target since the switch
    was proven there. Raises InvariantBroken `copies_are_equal` for a day that the target has neither hot nor in its
    register; Unavailable `rotation_busy`.
    """
    await keep_rotation_away(route, source, target)
    ours, theirs = [set(await leaves.hot_days(one, route.xx)) for one in (source, target)]
    proven = {row["day"] for row in await target.fetch(_STATES, route.xx)}
    standing = [day for day in days if day in ours]
    if lost := [day for day in standing if day not in theirs and day not in proven]:
        text = f"{route.target} has no tables of {lost[0]} of {route.name} any more; nothing is dropped"
        raise InvariantBroken("copies_are_equal", text)
    return [day for day in standing if day in theirs]


async def all_days(context: MoveContext, connection: Connection, route: Route) -> tuple[list[date], list[date]]:
    """Return the hot days that a live move can take now, days to come included, and the days that must stay for now.

    As in `days_to_take`, no day before one that rotation has begun with can be taken.
    """
    hot, stay = await _hot_and_rotated(context, connection, route, date.max)
    last = max(stay, default=date.min)
    return sorted(day for day in hot if day > last), sorted({*stay, *(day for day in hot if day <= last)})


async def days_to_take(
    context: MoveContext, connection: Connection, route: Route, valid_from: date
) -> tuple[list[date], list[date]]:
    """Return the hot days before `valid_from` that can be taken over now, and those that must stay for now.

    The days to take are those after the last one that rotation has begun with, on either SET, and has not dropped yet:
    the topology can only give away all days from a date on. Raises Refused `days_not_past`, `days_being_rotated`.
    """
    today = context.today()
    if today < valid_from:
        raise Refused(
            "days_not_past",
            f"old days of {route.name} can be moved from {valid_from} on, when new envelopes are on {route.target}",
        )
    hot, stay = await _hot_and_rotated(context, connection, route, valid_from)
    last = max(stay, default=None)
    if last is None:
        return sorted(hot), []
    if last >= valid_from - timedelta(days=1):
        raise Refused(
            "days_being_rotated",
            f"rotation is at work on {last} of {route.name}; run this again once it has dropped it",
        )
    return sorted(day for day in hot if day > last), sorted({*stay, *(day for day in hot if day <= last)})


async def _hot_and_rotated(
    context: MoveContext, connection: Connection, route: Route, before: date
) -> tuple[set[date], set[date]]:
    """Return the hot days of the source, and the days that rotation has begun with on either SET.

    A fence counts as begun: a rotation that was killed behind it has not entered the day into the register yet.
    """
    hot = {day for day in await leaves.hot_days(connection, route.xx) if day < before}
    states = {row["day"]: row["state"] for row in await connection.fetch(_STATES, route.xx)}
    touched = {row["day"] for row in await connection.fetch(_FENCED)}
    async with context.connect(route.target) as target:
        touched |= {row["day"] for query in (_TOUCHED, _FENCED) for row in await target.fetch(query)}
    return hot, {day for day, state in states.items() if state != "dropped" and day < before} | (hot & touched)


async def take_register(source: Connection, target: Connection, route: Route) -> int:
    """Copy the source's register rows of days that are in the archive alone; returns how many. Idempotent."""
    rows = await source.fetch(_COPY, route.xx)
    if not rows:
        return 0
    columns = list(rows[0].keys())
    places = ", ".join(f"${number}" for number in range(1, len(columns) + 1))
    query = f"INSERT INTO day_register ({', '.join(columns)}) VALUES ({places}) ON CONFLICT (day, xx) DO NOTHING"  # noqa: S608 - catalog names
    async with target.transaction():
        # The register's guard lets a day enter as `dropped`, and proves that no table of it exists here.
        await target.executemany(query, [tuple(row) for row in rows])
    return len(rows)
