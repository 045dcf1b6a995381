"""The journal of moves: one row per move, in the SET that gives the database away, advanced after each step."""

import contextlib
import json
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, replace
from datetime import date
from typing import Any, Self

from days import crash_points
from errors import Refused, Unavailable
from moving.context import MoveContext
from moving.route import Route
from runtime.postgres import Connection
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
        """Return the days that a step has noted under `name`; none if no step has."""
        return [date.fromisoformat(text) for text in self.note.get(name, ())]


class Journal:
    """One open move; only the tool that holds its lock writes it. `connection` is to the source."""

    def __init__(self, context: MoveContext, connection: Connection, entry: Entry) -> None:
        self._context = context
        self._connection = connection
        self.entry = entry

    @classmethod
    async def begin(
        cls, context: MoveContext, connection: Connection, kind: str, route: Route, valid_from: date | None
    ) -> Self:
        """Open the journal of a new move at step `planned`; durable on return."""
        async with connection.transaction():
            move_id = await connection.fetchval(_BEGIN, route.xx, kind, route.target, valid_from)
            await _log(connection, context.who, f"move {kind}", route, f"to {route.target}")
        crash_points.reach("planned")
        return cls(context, connection, Entry(move_id, kind, route, valid_from, "planned", {}))

    async def done(self, step: str, **note: Any) -> None:
        """Note that `step` is done, and add `note` to what is noted; durable on return."""
        crash_points.reach(f"{step}?")
        entry = replace(self.entry, step=step, note={**self.entry.note, **note})
        async with self._connection.transaction():
            await self._connection.execute(
                "UPDATE move SET step = $2, note = $3, since = now() WHERE move_id = $1",
                entry.move_id, step, json.dumps(entry.note),
            )  # fmt: skip
            if step in (DONE, ABORTED):
                await _log(self._connection, self._context.who, f"move {step}", entry.route, json.dumps(note)[:200])
        self.entry = entry
        crash_points.reach(step)

    async def remember(self, **note: Any) -> None:
        """Add `note` to what is noted, without a new step; durable on return."""
        self.entry = replace(self.entry, note={**self.entry.note, **note})
        await self._connection.execute(
            "UPDATE move SET note = $2 WHERE move_id = $1", self.entry.move_id, json.dumps(self.entry.note)
        )

    async def becomes_by_time(self, valid_from: date) -> None:
        """Turn a live move that has switched into a move by time that has begun; durable on return.

        Days before `valid_from` are still at the source, and `by_time` takes them over later.
        """
        crash_points.reach("by_time?")
        # The days noted so far have moved; they must not be taken for copies that a try by time has made.
        note = {**self.entry.note, "days": [], "left": []}
        await self._connection.execute(
            "UPDATE move SET kind = 'by_time', valid_from = $2, step = 'given_up', note = $3, since = now() "
            "WHERE move_id = $1",
            self.entry.move_id, valid_from, json.dumps(note),
        )  # fmt: skip
        self.entry = replace(self.entry, kind="by_time", valid_from=valid_from, step="given_up", note=note)
        crash_points.reach("by_time")


def texts(days: Iterable[date]) -> list[str]:
    """Return days as a note holds them; `Entry.days` reads them back."""
    return [str(day) for day in days]


@contextlib.asynccontextmanager
async def move_lock(context: MoveContext, route: Route) -> AsyncIterator[Connection]:
    """Give a connection to the source that holds this database's move lock for the block.

    It is an advisory lock, which ends with the connection. Raises Refused `move_running` if another process holds it.
    """
    async with context.connect(route.source) as connection:
        if not await connection.fetchval(_LOCK, route.xx):
            raise Refused("move_running", f"{route.name} is being moved by another process; let it finish")
        yield connection


@dataclass(frozen=True)
class OpenMoves:
    """The moves that are not over, by all SETs' journals; `away` are the SETs that do not answer, with the error."""

    moves: list[Entry]
    away: dict[str, Unavailable]


async def open_moves(context: MoveContext, xx: int | None = None) -> OpenMoves:
    """Return the moves that are not over, of one database or of all."""
    found = OpenMoves([], {})
    for name in context.owners:
        try:
            async with context.connect(name) as connection:
                found.moves.extend(_entry(name, row) for row in await connection.fetch(_OPEN, xx))
        except Unavailable as error:
            found.away[name] = error
    return found


async def open_move(context: MoveContext, xx: int) -> Entry | None:
    """Return the move of a database that is not over, or None.

    Raises Unavailable `database_unavailable` if no journal that could be read has one and a SET is away, because that
    SET's journal may; Refused `two_moves` if several journals have one.
    """
    journals = await open_moves(context, xx)
    found = journals.moves
    if not found and journals.away:
        raise next(iter(journals.away.values()))
    if len(found) > 1:
        raise Refused(
            "two_moves", f"{database_name(xx)} has open moves in {len(found)} SETs; look at their tables `move`"
        )
    return found[0] if found else None


async def _log(connection: Connection, who: str, what: str, route: Route, reason: str) -> None:
    await connection.execute(
        "INSERT INTO operation_log (who, what, xx, reason) VALUES ($1, $2, $3, $4)", who, what, route.xx, reason
    )


def _entry(source: str, row: Any) -> Entry:
    route = Route(row["xx"], source, row["target"])
    return Entry(row["move_id"], row["kind"], route, row["valid_from"], row["step"], json.loads(row["note"]))
