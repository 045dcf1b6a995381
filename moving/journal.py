"""The journal of moves: one row per move, in the SET that gives the database away, advanced after each step."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, replace
from datetime import date
from typing import Any, Self

from days import crash_points
from errors import Refused, Unavailable
from moving import lock
from moving.context import MoveContext
from moving.route import Route
from runtime import postgres
from runtime.postgres import Connection
from sharding.slots import database_name

DONE, ABORTED = "done", "aborted"
_BEGIN = """INSERT INTO move (xx, kind, target, valid_from, step) VALUES ($1, $2, $3, $4, 'planned')
RETURNING move_id, xmin::text"""
_TAKE_OVER = "UPDATE move SET step = step WHERE move_id = $1 RETURNING xmin::text"
_LOCK_ROW = "SELECT xmin::text FROM move WHERE move_id = $1 FOR UPDATE"
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
    """One open move; only the tool that holds its lock writes it. `connection` is to the source.

    The row's xmin, the transaction that has written it last, is a fencing token: a tool that goes on with a move writes
    its row first (`take_over`), and from then on one that had it before writes nothing more, on whatever connection.
    """

    def __init__(self, context: MoveContext, connection: Connection, entry: Entry, token: str) -> None:
        self._context = context
        self._connection = connection
        self._tokens = {token}
        """Two while a commit is under way, or its answer was lost: the row may be the one before or the new one."""
        self.entry = entry

    @classmethod
    async def begin(
        cls, context: MoveContext, connection: Connection, kind: str, route: Route, valid_from: date | None
    ) -> Self:
        """Open the journal of a new move at step `planned`; durable on return."""
        async with connection.transaction():
            row = await connection.fetchrow(_BEGIN, route.xx, kind, route.target, valid_from)
            await _log(connection, context.who, f"move {kind}", route, f"to {route.target}")
        crash_points.reach("planned")
        return cls(context, connection, Entry(row["move_id"], kind, route, valid_from, "planned", {}), row["xmin"])

    @classmethod
    async def take_over(cls, context: MoveContext, connection: Connection, entry: Entry) -> Self:
        """Go on with an open move, behind its lock: whoever had it before can write neither journal nor topology.

        The topology is published once more: a process that has read an earlier one and is about to publish its
        successor is refused, and what it reads next it publishes only if it still has the move (`prove`). Raises as
        `MoveContext.settled`; run it again then.
        """
        token = await connection.fetchval(_TAKE_OVER, entry.move_id)
        await context.settled()
        return cls(context, connection, entry, token)

    async def check(self, connection: Connection) -> None:
        """Raise Unavailable `move_lock_lost` if another process has gone on with this move.

        Else none can before the transaction ends in which this is called, on any connection to the source.
        """
        if await connection.fetchval(_LOCK_ROW, self.entry.move_id) not in self._tokens:
            raise lock.lost(self.entry.route.xx)

    async def check_alone(self, connection: Connection) -> None:
        """Call `check` in a transaction of its own: it is true of the instant."""
        async with connection.transaction():
            await self.check(connection)

    async def prove(self, target: Connection) -> None:
        """Show that this tool still has the move: both its sessions hold the lock, and both servers commit.

        A change of the topology that was decided before this call can then be published: if another process has gone on
        with the move since, it has published a version as well, and this one is refused. Raises Unavailable
        `move_lock_lost`.
        """
        xx = self.entry.route.xx
        proofs = [lock.prove(one, xx) for one in (self._connection, target)]
        # Both end, whatever one raises: a session on which a statement goes on could not be used for what comes next.
        for proof in await asyncio.gather(*proofs, return_exceptions=True):
            if isinstance(proof, BaseException):
                raise proof

    async def done(self, step: str, **note: Any) -> None:
        """Note that `step` is done, and add `note` to what is noted; durable on return."""
        crash_points.reach(f"{step}?")
        entry = replace(self.entry, step=step, note={**self.entry.note, **note})
        async with self._writing("step = $2, note = $3, since = now()", step, json.dumps(entry.note)):
            if step in (DONE, ABORTED):
                await _log(self._connection, self._context.who, f"move {step}", entry.route, json.dumps(note)[:200])
        self.entry = entry
        crash_points.reach(step)

    async def remember(self, **note: Any) -> None:
        """Add `note` to what is noted, without a new step; durable on return."""
        self.entry = replace(self.entry, note={**self.entry.note, **note})
        async with self._writing("note = $2", json.dumps(self.entry.note)):
            pass

    async def becomes_by_time(self, valid_from: date) -> None:
        """Turn a live move that has switched into a move by time that has begun; durable on return.

        Days before `valid_from` are still at the source, and `by_time` takes them over later.
        """
        crash_points.reach("by_time?")
        # The days noted so far have moved; they must not be taken for copies that a try by time has made.
        note = {**self.entry.note, "days": [], "left": []}
        change = "kind = 'by_time', valid_from = $2, step = 'given_up', note = $3, since = now()"
        async with self._writing(change, valid_from, json.dumps(note)):
            pass
        self.entry = replace(self.entry, kind="by_time", valid_from=valid_from, step="given_up", note=note)
        crash_points.reach("by_time")

    @contextlib.asynccontextmanager
    async def _writing(self, change: str, *values: Any) -> AsyncIterator[None]:
        """Write the row in a transaction, which commits at the end of the block, if this tool still has the move."""
        async with self._connection.transaction():
            tokens = f"xmin::text = ANY(${len(values) + 2}::text[])"
            query = f"UPDATE move SET {change} WHERE move_id = $1 AND {tokens} RETURNING xmin::text"  # noqa: S608 - constants
            token = await self._connection.fetchval(query, self.entry.move_id, *values, list(self._tokens))
            if token is None:
                raise lock.lost(self.entry.route.xx)
            yield
            self._tokens.add(token)
        self._tokens = {token}


def texts(days: Iterable[date]) -> list[str]:
    """Return days as a note holds them; `Entry.days` reads them back."""
    return [str(day) for day in days]


@contextlib.asynccontextmanager
async def move_lock(context: MoveContext, route: Route) -> AsyncIterator[Connection]:
    """Give a connection to the source that holds this database's move lock for the block.

    Raises Refused `move_running` if another process holds it.
    """
    async with context.connect(route.source) as connection:
        await lock.take(connection, route.xx, route.source)
        yield connection


@contextlib.asynccontextmanager
async def target_lock(context: MoveContext, route: Route) -> AsyncIterator[Connection]:
    """Give a connection to the target that holds this database's move lock for the block.

    Taken after the source's: the traffic can be released while the target is away. Raises Refused `move_running`: a
    tool that has lost its session at the source may still have the one at the target.
    """
    async with context.connect(route.target) as connection:
        await lock.take(connection, route.xx, route.target)
        yield connection


@dataclass(frozen=True)
class OpenMoves:
    """The moves that are not over, by all SETs' journals; `away` are the SETs that do not answer, with the error."""

    moves: list[Entry]
    away: dict[str, Unavailable]


async def open_moves(context: MoveContext, xx: int | None = None) -> OpenMoves:
    """Return the moves that are not over, of one database or of all, and which SETs do not answer."""
    found = OpenMoves([], {})
    for name in context.owners:
        try:
            with postgres.loss_told("while its moves were read"):
                found.moves.extend(await _open_at(context, name, xx))
        except Unavailable as error:
            found.away[name] = error
    return found


async def _open_at(context: MoveContext, name: str, xx: int | None) -> list[Entry]:
    async with postgres.answered(name), context.connect(name) as connection:
        return [_entry(name, row) for row in await connection.fetch(_OPEN, xx)]


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
