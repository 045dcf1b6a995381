"""The date from which a move by time holds: one that nobody has written yet, and far enough ahead for all to know."""

from datetime import date, datetime, time, timedelta
from typing import Any

from envelope.errors import Refused
from moving.ground import Ground, Route
from moving.limits import NOTICE_S
from sharding.ids import end_id, first_id
from sharding.topology import Topology

_LATER = (
    "SELECT EXISTS (SELECT FROM envelope WHERE envelope_id >= $1 AND envelope_id < $2 AND slot = ANY($3::smallint[]))"
)


async def first_date(ground: Ground, connection: Any, route: Route, wanted: date | None) -> date:
    """Return the date from which the move may hold: the one that is wanted, else the first that may be."""
    today = ground.today()
    if wanted is not None and wanted <= today:
        raise Refused("date_past", f"{wanted} has begun already (today is {today}); a move begins on a later date")
    topology = ground.topology()
    day = wanted or today + timedelta(days=1)
    if wanted is None:
        while not _has_notice(ground, topology, day) or await _written(connection, route, day):
            day += timedelta(days=1)
        return day
    check_notice(ground, topology, day)
    if await _written(connection, route, day):
        raise Refused("date_written", f"{route.name} on {route.source} has envelopes of {day} or later already")
    return day


def check_notice(ground: Ground, topology: Topology, day: date) -> None:
    """Raise Refused `date_too_soon` where the day begins before every server will know of the move."""
    if not _has_notice(ground, topology, day):
        raise Refused(
            "date_too_soon",
            f"{day} begins in less than {NOTICE_S:.0f} s, and not every server may know of it then; take a later one",
        )


def _has_notice(ground: Ground, topology: Topology, day: date) -> bool:
    begins = datetime.combine(day, time(), topology.zone)
    return (begins - ground.clock.now()).total_seconds() >= NOTICE_S


async def _written(connection: Any, route: Route, day: date) -> bool:
    """Say whether there is an envelope of `day` or a later one: somebody's clock is ahead."""
    last = end_id(date(day.year + 1, 12, 31))
    return bool(await connection.fetchval(_LATER, first_id(day), last, route.slots))
