"""What the commands call: begin or go on with a move, undo it, and say how all of them stand."""

from dataclasses import dataclass
from datetime import date
from typing import Any

from envelope.errors import Refused
from moving import by_time, live, stall
from moving.ground import Ground, Route, known_database
from moving.journal import Entry, Journal, alone, open_move
from sharding.slots import database_name
from sharding.topology import Topology


@dataclass(frozen=True)
class Outcome:
    """How a move stands after the command. `complete`: nothing of it is left to do."""

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
        """Return it as builtins."""
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


async def move_by_time(
    ground: Ground, database: str, to: str | None, valid_from: date | None = None, *, finish: bool = False
) -> Outcome:
    """Begin a move by time, or go on with the one that is open; with `finish`, or once it is begun, take the old days.

    Refused, with nothing changed: `unknown_database`, `unknown_set`, `already_there`, `other_move` (another one of this
    database is open), `no_move` (there is nothing to finish), and what `by_time` refuses.
    """
    topology = ground.topology()
    xx = known_database(database, topology)
    entry = await open_move(ground, xx)
    if entry is None and finish:
        raise Refused("no_move", f"no move of {database} is open; begin one with --to")
    route = _route_of(entry, topology, xx, to, by_time.KIND, valid_from)
    async with alone(ground, route) as connection:
        # What was read before the lock may be another process' last step but one.
        entry = await open_move(ground, xx)
        if entry is None:
            new_route(ground.topology(), xx, route.target)
            move = await by_time.start(ground, connection, route, valid_from)
            return _outcome(move.journal.entry, [], {})
        check_same(entry, by_time.KIND, to, valid_from)
        move = by_time.resume(ground, connection, entry)
        begun = by_time.STEPS.index(entry.step) >= by_time.STEPS.index("given_up")
        await move.begin()
        left = await move.finish() if begun or finish else []
        return _outcome(move.journal.entry, left, move.figures)


async def move_live(ground: Ground, database: str, to: str | None) -> Outcome:
    """Move a database with all its hot days now, or go on with the live move that is open.

    Refused, with nothing changed: as `move_by_time`. Unavailable: `stall_too_long`, `replication_lags`, `servers_lag`,
    `tables_locked`: the database is served where it was, and running it again goes on. InvariantBroken
    `copies_are_equal`: the move is undone.
    """
    topology = ground.topology()
    xx = known_database(database, topology)
    route = _route_of(await open_move(ground, xx), topology, xx, to, live.KIND)
    async with alone(ground, route) as source:
        # What was read before the lock may be another process' last step but one.
        entry = await open_move(ground, xx)
        if entry is not None:
            check_same(entry, live.KIND, to)
            entry = await _let_go(ground, Journal(ground, source, entry))
        async with ground.connect(route.target) as target:
            journal = Journal(ground, source, entry) if entry else await _begin(ground, source, route)
            move = live.Live(ground, source, target, journal)
            left = await move.run()
            return _outcome(journal.entry, left, move.figures)


async def _begin(ground: Ground, source: Any, route: Route) -> Journal:
    new_route(ground.topology(), route.xx, route.target)
    return await Journal.begin(ground, source, live.KIND, route, None)


async def abort(ground: Ground, database: str) -> Outcome:
    """Undo a live move that has not switched. Refused: `no_move`, `too_late`, `other_move` for one by time.

    Unavailable `database_unavailable` where the new SET is away: the database is served where it was, and what was
    copied is left there until this is run again.
    """
    xx = known_database(database, ground.topology())
    entry = await _open_live(ground, xx)
    async with alone(ground, entry.route) as source:
        # As above: it may have switched, or be over.
        journal = Journal(ground, source, await _open_live(ground, xx))
        if stall.switched(ground, entry.route):
            raise Refused("too_late", f"{database} has switched already; move it back instead")
        await _let_go(ground, journal)
        async with ground.connect(entry.route.target) as target:
            await live.Live(ground, source, target, journal).undo()
        return _outcome(journal.entry, [], {})


async def _open_live(ground: Ground, xx: int) -> Entry:
    entry = await open_move(ground, xx)
    if entry is None:
        raise Refused("no_move", f"no move of {database_name(xx)} is open")
    check_same(entry, live.KIND, None)
    return entry


async def _let_go(ground: Ground, journal: Journal) -> Entry:
    """End the stall that a killed try has left, before anybody looks for the target; returns how the move stands."""
    route = journal.entry.route
    held = journal.entry.step in stall.STEPS or route.name in ground.topology().held
    if held and not stall.switched(ground, route):
        await stall.end(ground, journal)
    return journal.entry


def _route_of(
    entry: Entry | None, topology: Topology, xx: int, to: str | None, kind: str, valid_from: date | None = None
) -> Route:
    if entry is not None:
        check_same(entry, kind, to, valid_from)
        return entry.route
    if to is None:
        raise Refused("no_move", f"no move of {database_name(xx)} is open; begin one with --to")
    return new_route(topology, xx, to)


def new_route(topology: Topology, xx: int, to: str) -> Route:
    """Return the way of a new move; raises Refused `unknown_set`, `already_there` or `other_move`."""
    names = [one.name for one in topology.sets]
    if to not in names:
        raise Refused("unknown_set", f"there is no SET {to!r}; there are {', '.join(names)}")
    route = Route(xx, topology.set_for_database(xx).name, to)
    if route.source == to:
        raise Refused("already_there", f"{route.name} is on {to} already")
    if route.name in topology.moves or route.name in topology.held:
        raise Refused("other_move", f"{route.name} is being moved already; finish that first")
    return route


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
