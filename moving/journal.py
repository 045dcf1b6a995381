"""The journal of a move: one row in the SET that gives the database away, one step further after each that is done."""

import contextlib
import json
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, replace
from datetime import date
from typing import Any, Self

from envelope.errors import Refused, Unavailable
from moving.ground import Ground, Route
from sharding.slots import database_name

DONE, ABORTED = "done", "aborted"
_LOCK = "SELECT pg_try_advisory_lock(hashtext('hongbao_move'), $1)"
_BEGIN = "INSERT INTO move (xx, kind, target, valid_from, step) VALUES ($1, $2, $3, $4, 'planned') RETURNING move_id"
_OPEN = """SELECT move_id, xx, kind, target, valid_from, step, note FROM move
WHERE step NOT IN ('done', 'aborted') AND ($1::smallint IS NULL OR xx = $1) ORDER BY move_id"""


@dataclass(frozen=True)
class Entry:
    """A move as the journal has it."""

    move_id: int
    kind: str
    route: Route
    valid_from: date | None
    step: str
    note: dict[str, Any]

    def days(self, name: str) -> list[date]:
        """Return the days that the steps have noted under a name; none where they have not."""
        return [date.fromisoformat(text) for text in self.note.get(name, ())]


class Journal:
    """One open move, written by the one tool that holds its lock. `connection` is to the source."""

    def __init__(self, ground: Ground, connection: Any, entry: Entry) -> None:
        self._ground = ground
        self._connection = connection
        self.entry = entry

    @classmethod
    async def begin(cls, ground: Ground, connection: Any, kind: str, route: Route, valid_from: date | None) -> Self:
        """Open the journal of a new move at step `planned`; durable."""
        async with connection.transaction():
            move_id = await connection.fetchval(_BEGIN, route.xx, kind, route.target, valid_from)
            await _log(connection, ground.who, f"move {kind}", route, f"to {route.target}")
        ground.point("planned")
        return cls(ground, connection, Entry(move_id, kind, route, valid_from, "planned", {}))

    async def done(self, step: str, **note: Any) -> None:
        """Write that `step` is done; durable on return."""
        self._ground.point(f"{step}?")
        entry = replace(self.entry, step=step, note={**self.entry.note, **note})
        async with self._connection.transaction():
            await self._connection.execute(
                "UPDATE move SET step = $2, note = $3, since = now() WHERE move_id = $1",
                entry.move_id, step, json.dumps(entry.note),
            )  # fmt: skip
            if step in (DONE, ABORTED):
                await _log(self._connection, self._ground.who, f"move {step}", entry.route, json.dumps(note)[:200])
        self.entry = entry
        self._ground.point(step)

    async def remember(self, **note: Any) -> None:
        """Write down what later steps must know, without being a step further."""
        self.entry = replace(self.entry, note={**self.entry.note, **note})
        await self._connection.execute(
            "UPDATE move SET note = $2 WHERE move_id = $1", self.entry.move_id, json.dumps(self.entry.note)
        )

    async def becomes_by_time(self, valid_from: date) -> None:
        """Go on as a move by time whose first part is done: days before `valid_from` are still at the source."""
        self._ground.point("by_time?")
        # The days noted so far have moved: they are no copies of a try of what begins here.
        note = {**self.entry.note, "days": [], "left": []}
        await self._connection.execute(
            "UPDATE move SET kind = 'by_time', valid_from = $2, step = 'given_up', note = $3, since = now() "
            "WHERE move_id = $1",
            self.entry.move_id, valid_from, json.dumps(note),
        )  # fmt: skip
        self.entry = replace(self.entry, kind="by_time", valid_from=valid_from, step="given_up", note=note)
        self._ground.point("by_time")


def texts(days: Iterable[date]) -> list[str]:
    """Return days as a note holds them; `Entry.days` reads them."""
    return [str(day) for day in days]


@contextlib.asynccontextmanager
async def alone(ground: Ground, route: Route) -> AsyncIterator[Any]:
    """Give a connection to the source on which nobody else moves this database meanwhile.

    Raises Refused `move_running`; the lock goes with the process that holds it.
    """
    async with ground.connect(route.source) as connection:
        if not await connection.fetchval(_LOCK, route.xx):
            raise Refused("move_running", f"{route.name} is being moved by another process; let it finish")
        yield connection


@dataclass(frozen=True)
class Open:
    """The moves that are not over, from the journals of all SETs but those that are `away`: name → what it said."""

    moves: list[Entry]
    away: dict[str, Unavailable]


async def open_moves(ground: Ground, xx: int | None = None) -> Open:
    """Return the moves that are not over, of one database or all."""
    found = Open([], {})
    for name in ground.owners:
        try:
            async with ground.connect(name) as connection:
                found.moves.extend(_entry(name, row) for row in await connection.fetch(_OPEN, xx))
        except Unavailable as error:
            found.away[name] = error
    return found


async def open_move(ground: Ground, xx: int) -> Entry | None:
    """Return the move of a database that is not over; None where there is none.

    A SET that is away keeps nobody from a move that another one's journal has; where none has, it may be there, and
    Unavailable `database_unavailable` says so.
    """
    journals = await open_moves(ground, xx)
    found = journals.moves
    if not found and journals.away:
        raise next(iter(journals.away.values()))
    if len(found) > 1:
        raise Refused(
            "two_moves", f"{database_name(xx)} has open moves in {len(found)} SETs; look at their tables `move`"
        )
    return found[0] if found else None


async def _log(connection: Any, who: str, what: str, route: Route, reason: str) -> None:
    await connection.execute(
        "INSERT INTO operation_log (who, what, xx, reason) VALUES ($1, $2, $3, $4)", who, what, route.xx, reason
    )


def _entry(source: str, row: Any) -> Entry:
    route = Route(row["xx"], source, row["target"])
    return Entry(row["move_id"], row["kind"], route, row["valid_from"], row["step"], json.loads(row["note"]))
