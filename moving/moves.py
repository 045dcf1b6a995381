"""What commands call: begin a move or go on with it, and undo one."""

from dataclasses import dataclass
from datetime import date
from typing import Any

from errors import Refused
from moving import by_time, cutover, live, take_back
from moving.context import MoveContext
from moving.dates import first_date
from moving.journal import Entry, Journal, move_lock, open_move, target_lock
from moving.route import Route, known_database, new_route
from runtime.postgres import Connection
from sharding.slots import database_name
from sharding.topology import Topology

NOT_BEGUN = "not_begun"


@dataclass(frozen=True)
class Outcome:
    """How a move stands after the command: `complete` if it is over; `left` days stay at the source for now."""

    database: str
    kind: str
    source: str
    target: str
    valid_from: date | None
    step: str
    complete: bool
    left: list[date]
    figures: dict[str, Any]

    def as_json(self) -> dict[str, Any]:
        """Return it as the command prints it with `--json`."""
        return {
            "database": self.database,
            "kind": self.kind,
            "from": self.source,
            "to": self.target,
            "valid_from": None if self.valid_from is None else str(self.valid_from),
            "step": self.step,
            "complete": self.complete,
            "days_left": [str(day) for day in self.left],
            **self.figures,
        }


async def plan_move(
    context: MoveContext, database: str, to: str | None, valid_from: date | None = None, *, how: str = by_time.KIND
) -> Outcome | None:
    """Return what a call of `move_by_time` (or `move_live`) would begin, as step `not_begun`; None if one is open.

    Changes nothing. Raises what the begin would refuse.
    """
    topology = context.topology()
    xx = known_database(database, topology)
    if await open_move(context, xx) is not None:
        return None
    route = _route_of(None, topology, xx, to, how)
    day = None
    if how == by_time.KIND:
        async with context.connect(route.source) as source:
            day = await first_date(context, source, route, valid_from)
    return Outcome(route.name, how, route.source, route.target, day, NOT_BEGUN, complete=False, left=[], figures={})


async def move_by_time(
    context: MoveContext, database: str, to: str | None, valid_from: date | None = None, *, finish: bool = False
) -> Outcome:
    """Begin a move by time, or continue the one that is open.

    The first call makes the beginning only. Once that is done, a call also takes old days over; `finish` does both in
    one call, and needs an open move.

    Refused, with nothing changed: `unknown_database`, `unknown_set`, `already_there`, `other_move` (another move of it
    is open), `no_move` (there is nothing to finish), and what `by_time` refuses.
    """
    topology = context.topology()
    xx = known_database(database, topology)
    entry = await open_move(context, xx)
    if entry is None and finish:
        raise Refused("no_move", f"no move of {database} is open; begin one with --to")
    route = _route_of(entry, topology, xx, to, by_time.KIND, valid_from)
    async with move_lock(context, route) as connection:
        # Once more behind the lock: another process may have taken a step meanwhile.
        entry = await open_move(context, xx)
        if entry is None:
            new_route(context.topology(), xx, route.target)
            async with target_lock(context, route) as target:
                move = await by_time.start(context, connection, target, route, valid_from)
            return _outcome(move.journal.entry, [], {})
        check_same(entry, by_time.KIND, to, valid_from)
        if entry.note.get(take_back.UNDOING):
            raise Refused("other_move", f"the move of {route.name} is being taken back; run it with --abort")
        async with target_lock(context, route) as target:
            move = by_time.ByTime(context, connection, target, await Journal.take_over(context, connection, entry))
            begun = by_time.STEPS.index(entry.step) >= by_time.STEPS.index("given_up")
            await move.begin()
            left = await move.finish() if begun or finish else []
        return _outcome(move.journal.entry, left, move.figures)


async def move_live(context: MoveContext, database: str, to: str | None) -> Outcome:
    """Move a database with all its hot days now, or continue the live move that is open.

    Refused, with nothing changed: as `move_by_time`. Unavailable (`stall_too_long`, `replication_lags`, `servers_lag`,
    `tables_locked`): the database is served where it was, and the same call continues later. InvariantBroken
    `copies_are_equal`: the move is undone.
    """
    topology = context.topology()
    xx = known_database(database, topology)
    route = _route_of(await open_move(context, xx), topology, xx, to, live.KIND)
    async with move_lock(context, route) as source:
        # Once more behind the lock: another process may have taken a step meanwhile.
        entry, journal = await open_move(context, xx), None
        if entry is not None:
            check_same(entry, live.KIND, to)
            journal = await Journal.take_over(context, source, entry)
            await _release(context, journal)
        async with target_lock(context, route) as target:
            journal = journal or await _begin(context, source, route)
            move = live.Live(context, source, target, journal)
            left = await move.run()
            return _outcome(journal.entry, left, move.figures)


async def _begin(context: MoveContext, source: Connection, route: Route) -> Journal:
    new_route(context.topology(), route.xx, route.target)
    return await Journal.begin(context, source, live.KIND, route, None)


async def abort(context: MoveContext, database: str) -> Outcome:
    """Undo a live move that has not switched, or a move by time whose date has no envelope yet.

    Refused: `no_move`, `too_late`.

    Unavailable `database_unavailable` if the new SET is away: the database is served where it was, and the copies stay
    there until this is run again.
    """
    xx = known_database(database, context.topology())
    entry = await _open_any(context, xx)
    async with move_lock(context, entry.route) as source:
        # Once more behind the lock: it may have switched, or be over.
        journal = await Journal.take_over(context, source, await _open_any(context, xx))
        if journal.entry.kind == by_time.KIND:
            await take_back.take_back(context, source, journal)
            return _outcome(journal.entry, [], {})
        if await cutover.switched(context, entry.route):
            raise Refused("too_late", f"{database} has switched already; move it back instead")
        await _release(context, journal)
        async with target_lock(context, entry.route) as target:
            await live.Live(context, source, target, journal).undo()
        return _outcome(journal.entry, [], {})


async def _open_any(context: MoveContext, xx: int) -> Entry:
    entry = await open_move(context, xx)
    if entry is None:
        raise Refused("no_move", f"no move of {database_name(xx)} is open")
    return entry


async def _release(context: MoveContext, journal: Journal) -> None:
    """Release the traffic that a killed try has left held; of the two SETs it needs the source alone."""
    route = journal.entry.route
    held = journal.entry.step in cutover.STEPS or route.name in context.topology().held
    if held and not await cutover.switched(context, route):
        await cutover.release_traffic(context, journal)


def _route_of(
    entry: Entry | None, topology: Topology, xx: int, to: str | None, kind: str, valid_from: date | None = None
) -> Route:
    if entry is not None:
        check_same(entry, kind, to, valid_from)
        return entry.route
    if to is None:
        raise Refused("no_move", f"no move of {database_name(xx)} is open; begin one with --to")
    return new_route(topology, xx, to)


def check_same(entry: Entry, kind: str, to: str | None, valid_from: date | None = None) -> None:
    """Raise Refused `other_move` unless the open move is the one that is asked for."""
    route = entry.route
    same = entry.kind == kind and to in (None, route.target) and valid_from in (None, entry.valid_from)
    if not same:
        day = f" from {entry.valid_from}" if entry.valid_from else ""
        how = "live" if entry.kind == "live" else "by time"
        raise Refused(
            "other_move",
            f"{route.name} is being moved to {route.target} ({how}{day}, step {entry.step}); finish that first",
        )


def _outcome(entry: Entry, left: list[date], figures: dict[str, Any]) -> Outcome:
    route = entry.route
    return Outcome(
        route.name, entry.kind, route.source, route.target, entry.valid_from, entry.step, entry.step == "done", left,
        figures,
    )  # fmt: skip
