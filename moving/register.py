"""What has become of old days in either SET's register: which can be taken over hot, which follow as archived."""

from datetime import date, timedelta
from typing import Any

from envelope.errors import Refused, Unavailable
from moving import leaves, queries
from moving.ground import Ground, Route
from moving.limits import BUSY_S
from schema.day_lock import take_days

_STATES = "SELECT day, state FROM day_register WHERE xx = $1"
_TOUCHED = "SELECT DISTINCT day FROM day_register"
_FENCED = queries.read("fenced_days")
_COPY = "SELECT * FROM day_register WHERE xx = $1 AND state = 'dropped'"


async def keep_rotation_away(route: Route, source: Any, target: Any) -> None:
    """Let no day leave or close on either SET until these connections close; again is harmless.

    Raises Unavailable `rotation_busy` with the SET where a rotation, or another move, is at work.
    """
    # In one order for all, so that of two moves in opposite directions one goes on.
    for name, connection in sorted({route.source: source, route.target: target}.items()):
        if not await take_days(connection, BUSY_S):
            text = f"a rotation or another move is at work on {name}; run this again once it is through"
            raise Unavailable("rotation_busy", text)


async def all_days(ground: Ground, connection: Any, route: Route) -> tuple[list[date], list[date]]:
    """Return all hot days that can be taken over now, coming ones as well, and those that must stay for now."""
    hot, stay = await _split(ground, connection, route, date.max)
    last = max(stay, default=date.min)
    return sorted(day for day in hot if day > last), sorted({*stay, *(day for day in hot if day <= last)})


async def days_to_take(
    ground: Ground, connection: Any, route: Route, valid_from: date
) -> tuple[list[date], list[date]]:
    """Return the hot days before `valid_from` that can be taken over now, and those that must stay for now.

    Taken over are the youngest in one piece: from `valid_from` backwards until a day that rotation has begun with, on
    either SET, and not dropped into the archive yet. Raises Refused `days_not_past`.
    """
    today = ground.today()
    if today < valid_from:
        raise Refused(
            "days_not_past", f"{route.name} is born on {route.target} from {valid_from} on; its old days end then"
        )
    hot, stay = await _split(ground, connection, route, valid_from)
    last = max(stay, default=None)
    if last is None:
        return sorted(hot), []
    if last >= valid_from - timedelta(days=1):
        raise Refused(
            "days_being_rotated",
            f"rotation is at work on {last} of {route.name}; run this again once it has dropped it",
        )
    return sorted(day for day in hot if day > last), sorted({*stay, *(day for day in hot if day <= last)})


async def _split(ground: Ground, connection: Any, route: Route, before: date) -> tuple[set[date], set[date]]:
    """Return the hot days of the source, and the days that rotation has begun with on either side.

    A fence is a beginning: a rotation that was killed behind it has not written the day into the register yet.
    """
    hot = {day for day in await leaves.hot_days(connection, route.xx) if day < before}
    states = {row["day"]: row["state"] for row in await connection.fetch(_STATES, route.xx)}
    touched = {row["day"] for row in await connection.fetch(_FENCED)}
    async with ground.connect(route.target) as target:
        touched |= {row["day"] for query in (_TOUCHED, _FENCED) for row in await target.fetch(query)}
    return hot, {day for day, state in states.items() if state != "dropped" and day < before} | (hot & touched)


async def take_register(source: Any, target: Any, route: Route) -> int:
    """Copy what the source's register says of days that are in the archive alone; returns how many. Idempotent."""
    rows = await source.fetch(_COPY, route.xx)
    if not rows:
        return 0
    columns = list(rows[0].keys())
    places = ", ".join(f"${number}" for number in range(1, len(columns) + 1))
    query = f"INSERT INTO day_register ({', '.join(columns)}) VALUES ({places}) ON CONFLICT (day, xx) DO NOTHING"  # noqa: S608 - catalog names
    async with target.transaction():
        # The register's guard lets a day begin as dropped where nothing of it stands, which it proves itself.
        await target.executemany(query, [tuple(row) for row in rows])
    return len(rows)
