"""The date of a move by time: no envelope of it or a later date exists, and every server has read of it by then."""

from datetime import date, datetime, time, timedelta

from errors import Refused
from moving.context import MoveContext
from moving.limits import NOTICE_S
from moving.route import Route
from runtime.postgres import Connection
from sharding.ids import end_id, first_id
from sharding.topology import Topology

_LATER = (
    "SELECT EXISTS (SELECT FROM envelope WHERE envelope_id >= $1 AND envelope_id < $2 AND slot = ANY($3::smallint[]))"
)


async def first_date(context: MoveContext, connection: Connection, route: Route, wanted: date | None) -> date:
    """Return the move's date: `wanted`, or the first possible one.

    A wanted date may be refused: `date_past`, `date_too_soon`, `date_written`.
    """
    today = context.today()
    if wanted is not None and wanted <= today:
        raise Refused("date_past", f"{wanted} has begun already (today is {today}); a move begins on a later date")
    topology = context.topology()
    day = wanted or today + timedelta(days=1)
    if wanted is None:
        while not _has_notice(context, topology, day) or await _written(connection, route, day):
            day += timedelta(days=1)
        return day
    check_notice(context, topology, day)
    if await _written(connection, route, day):
        raise Refused("date_written", f"{route.name} on {route.source} has envelopes of {day} or later already")
    return day


def check_notice(context: MoveContext, topology: Topology, day: date) -> None:
    """Raise Refused `date_too_soon` if the day begins before every server will know of the move."""
    if not _has_notice(context, topology, day):
        raise Refused(
            "date_too_soon",
            f"{day} begins in less than {NOTICE_S:.0f} s, and not every server may know of it then; take a later one",
        )


def _has_notice(context: MoveContext, topology: Topology, day: date) -> bool:
    begins = datetime.combine(day, time(), topology.zone)
    return (begins - context.clock.now()).total_seconds() >= NOTICE_S


async def _written(connection: Connection, route: Route, day: date) -> bool:
    """Say whether an envelope of `day` or a later one exists, because a server's clock is ahead."""
    last = end_id(date(day.year + 1, 12, 31))
    return bool(await connection.fetchval(_LATER, first_id(day), last, route.slots))
