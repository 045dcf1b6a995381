"""The days of one SET: which have hot tables, and how far those that leave have come (`archive.states`)."""

import asyncio
from datetime import date, timedelta
from typing import Any

import msgspec

from archive.states import State
from errors import Unavailable
from inspection.limits import CALENDAR_DAYS, INSPECT_S
from runtime import postgres, sql
from schema.day_tables import known_days

_CALENDAR = sql.read("inspection", "calendar")


class Day(msgspec.Struct, frozen=True):
    """One business date. `states`: how many databases are in each state; hot ones are not counted, but `hot` says so.

    `envelopes` and `paid_in_fen`: of the databases that are in the register, as it says.
    """

    day: date
    hot: bool
    states: dict[str, int]
    envelopes: int
    paid_in_fen: int


async def calendar(name: str, dsn: str, today: date) -> list[Day]:
    """Return the days of CALENDAR_DAYS back and all that are to come; raises Unavailable `database_unavailable`."""
    async with postgres.connected(dsn) as connection:
        try:
            async with asyncio.timeout(INSPECT_S):
                hot = await known_days(connection)
                rows = await connection.fetch(_CALENDAR, today - timedelta(days=CALENDAR_DAYS))
        except Exception as error:
            if not postgres.is_lost(error):
                raise
            connection.terminate()
            raise Unavailable("database_unavailable", f"{name} does not answer: {error}") from error
    days: dict[date, list[Any]] = {day: [] for day in hot}
    for row in rows:
        days.setdefault(row["day"], []).append(row)
    return [
        Day(
            day,
            day in hot,
            {State(row["state"]).value: row["databases"] for row in found},
            sum(row["envelopes"] for row in found),
            sum(row["paid_in_fen"] for row in found),
        )
        for day, found in sorted(days.items())
    ]
