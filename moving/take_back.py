"""A move by time is taken back while no envelope of its date or a later one exists.

Behind a fence on the new SET nothing can be written there from the date on, so what is counted as empty stays empty,
also if the date begins meanwhile. Only then the topology gives the days back, and the empty tables are dropped. Each
step finds what an earlier try has left: a killed call is run again.
"""

from collections.abc import Sequence
from datetime import date, timedelta

from days import crash_points
from errors import InvariantBroken, Refused
from moving import leaves
from moving.auxiliary import rewind_sweeper, sweeper_cursor
from moving.by_time import BEGIN
from moving.context import MoveContext
from moving.journal import ABORTED, Entry, Journal, target_lock
from moving.leaves import leaves_of
from moving.route import Route
from moving.servers import all_follow
from runtime.postgres import Connection
from schema.day_tables import AHEAD_DAYS, DayTables
from sharding.topology import Topology
from sharding.topology.changes import take_back_move

UNDOING = "undoing"
"""In the note of a move that is being taken back: until that is done, it can only be taken back."""
_CURSOR = "target_cursor"


async def take_back(context: MoveContext, source: Connection, journal: Journal) -> None:
    """Give a database back to its SET for all dates. Durable on return.

    Raises Refused `too_late` (old days have moved already, or a date of the new SET has an envelope); the move stands
    as before then. Refused `day_table_occupied`, Unavailable `servers_lag`, `tables_locked`, `database_unavailable`:
    run it again, until then the move can only be taken back.
    """
    route, day = journal.entry.route, _date(journal.entry)
    async with target_lock(context, route) as target:
        if not journal.entry.note.get(UNDOING):
            _check_only_begun(context.topology(), journal.entry, day)
            await _check_empty(target, route, await _days_from(target, route.xx, day))
            await journal.remember(**{UNDOING: True})
        crash_points.reach("undoing")
        await _make_tables(context, route, day)
        try:
            days = await _fence(target, route, day)
        except Refused:
            # An envelope came between the look and the fence: the move stands as before.
            again = await _days_from(source, route.xx, day)
            context.must_hold(route.target, route.xx, again)
            await leaves.drop(source, leaves_of(route.xx, again))
            await journal.remember(**{UNDOING: False})
            raise
        crash_points.reach("emptied")
        if _CURSOR not in journal.entry.note:
            await journal.remember(**{_CURSOR: await sweeper_cursor(target)})
        await context.change(lambda old: _without(old, route, day), lambda: journal.prove(target))
        crash_points.reach("taken_back")
        await context.announce(route.source, route.target)
        await all_follow(context.topology(), route.source, route.target, tls=context.tls)
        # The new SET's sweeper may have passed funds of the date whose create the fence has refused.
        await rewind_sweeper(source, journal.entry.note[_CURSOR])
        days = sorted({*days, *await _days_from(target, route.xx, day)})
        context.must_hold(route.source, route.xx, days)
        await _check_empty(target, route, days)
        await leaves.drop(target, leaves_of(route.xx, days))
    await journal.done(ABORTED)


async def _make_tables(context: MoveContext, route: Route, day: date) -> None:
    """Make the tables again that the begin of the move has dropped."""
    ahead = (context.today() + timedelta(days=AHEAD_DAYS) - day).days
    if ahead >= 0:
        await DayTables(context.owners[route.source], [route.xx]).ensure(day, ahead_days=ahead)


async def _fence(target: Connection, route: Route, day: date) -> list[date]:
    """Fence the new SET's tables from the date on; returns their days. If one has a row, the fence is lifted again."""
    days = await _days_from(target, route.xx, day)
    await leaves.fence(target, leaves_of(route.xx, days))
    try:
        await _check_empty(target, route, days)
    except Refused:
        await leaves.unfence(target, leaves_of(route.xx, days))
        raise
    return days


def _date(entry: Entry) -> date:
    if entry.valid_from is None:
        raise InvariantBroken("move_has_date", "a move by time without a date")
    return entry.valid_from


def _check_only_begun(topology: Topology, entry: Entry, day: date) -> None:
    """Raise Refused `too_late` if old days are being moved or have moved."""
    moves = topology.moves.get(entry.route.name, ())
    # A try to finish that found nothing to do has noted empty lists.
    noted = {name for name, value in entry.note.items() if value}
    if entry.step not in BEGIN or noted or (moves and moves[-1].valid_from != day):
        raise Refused("too_late", f"old days of {entry.route.name} have moved already; finish it, then move it back")


async def _check_empty(target: Connection, route: Route, days: Sequence[date]) -> None:
    existing = await leaves.in_catalog(target, route.xx)
    for leaf in leaves_of(route.xx, days):
        query = f"SELECT EXISTS (SELECT FROM {leaf.name})"  # noqa: S608 - digits
        if leaf.name in existing and await target.fetchval(query):
            text = f"{route.name} has envelopes of {leaf.day} on {route.target} already"
            raise Refused("too_late", f"{text}; finish the move, then move it back")


async def _days_from(target: Connection, xx: int, day: date) -> list[date]:
    return [one for one in await leaves.hot_days(target, xx) if one >= day]


def _without(old: Topology, route: Route, day: date) -> Topology:
    moves = old.moves.get(route.name, ())
    return take_back_move(old, route.xx) if moves and moves[-1].valid_from == day else old
