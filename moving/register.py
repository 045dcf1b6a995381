"""What has become of old days in either SET's register: which can be taken over hot, which follow as archived."""

from datetime import date, timedelta
from typing import Any

from envelope.errors import Refused
from moving import leaves
from moving.ground import Ground, Route

_STATES = "SELECT day, state FROM day_register WHERE xx = $1"
_TOUCHED = "SELECT DISTINCT day FROM day_register WHERE day < $1"
_COPY = "SELECT * FROM day_register WHERE xx = $1 AND state = 'dropped'"


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
    """Return the hot days of the source, and the days that rotation has begun with on either side."""
    hot = {day for day in await leaves.hot_days(connection, route.xx) if day < before}
    states = {row["day"]: row["state"] for row in await connection.fetch(_STATES, route.xx)}
    async with ground.connect(route.target) as target:
        touched = {row["day"] for row in await target.fetch(_TOUCHED, before)}
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
