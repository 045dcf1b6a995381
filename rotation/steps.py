"""One run over one day of one SET: close, detach, export, verify. It continues where the last run ended."""

import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from typing import TypeVar

from archive.states import State
from days import crash_points
from days.finality import Obstacle, slots_of_all
from errors import Refused
from rotation import archiving, facts, register
from rotation.archive_port import ArchivePort
from rotation.day_proof import Proof, prove
from rotation.detach import detach, drop_empty, drop_foreign, move_leaves
from rotation.fence import fence, is_fenced, unfence
from rotation.limits import LOCK_RETRY, MIN_AGE_DAYS
from rotation.obstacles import known_obstacles
from rotation.points import Point
from rotation.register import Entry, Operator
from rotation.sessions import Sessions, sessions
from rotation.set_access import SetAccess
from runtime import logs
from runtime.clock import Clock
from runtime.postgres import Connection
from runtime.sandbox_clock import ahead_ms
from runtime.wording import counted
from schema import names
from schema.day_tables import check_clock

Progress = Callable[[str, int, int], None]
"""Receives what is being done, how much of it so far, and of how much (0: unknown)."""

T = TypeVar("T")

_log = logs.get("rotation")


class DayUnproven(Refused):
    """The day could not be proven to be over; nothing was changed. `obstacles` are the first of `count` in its way."""

    def __init__(self, set_name: str, proof: Proof) -> None:
        self.day = proof.day
        self.obstacles: list[Obstacle] = proof.obstacles
        self.count = proof.count
        first = "; ".join(one.detail for one in proof.obstacles[:3])
        super().__init__("day_unproven", f"{proof.day} of {set_name} stays: {first} ({proof.count} obstacles)")


@dataclass
class Result:
    """What one run did to one day: the states by database at its end, and how long each step took, in seconds."""

    day: date
    states: dict[int, State] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Rotation:
    """Rotates days of one SET. Without an archive it goes as far as `detached`."""

    set_access: SetAccess
    clock: Clock
    archive: ArchivePort | None = None
    progress: Progress = lambda *_: None

    async def run(self, day: date, today: date, by: Operator, *, until: State = State.VERIFIED) -> Result:
        """Take the day as far as it goes, or `until` a state. Idempotent, and each step is durable by itself.

        The archive of a day that is verified is read back once more, and exported anew from the tables if it was
        spoilt. Tables of a day without leaves are dropped at once; the result then has no states.

        Refused: `rotation_busy`, `clock_wrong`, `day_too_young`, `day_unknown`, `day_unproven` (a DayUnproven),
        `step_refused`, and what the archive refuses. Unavailable: `rotation_waits`, `database_unavailable`; the same
        call continues later.
        """
        async with sessions(self.set_access) as connections:
            await check_clock(connections.work, today)
            found = await self._facts(connections.work, day)
            _check(self.set_access.name, found, today)
            result = Result(day)
            if found.empty:
                await self._clear(connections, day, by)
                return result
            for state, name, work in (
                (State.CLOSED, "close", partial(self._close, connections, found, by)),
                (State.DETACHED, "detach", partial(self._detach, connections, day, by)),
                (State.EXPORTED, "export", partial(self._export, connections, day, by)),
                (State.VERIFIED, "verify", partial(self._verify, connections, day, by)),
            ):
                if state.rank > until.rank:
                    break
                started = time.perf_counter()
                await work()
                result.seconds[name] = round(time.perf_counter() - started, 3)
            result.states = {one.xx: one.state for one in await register.entries(connections.work, day)}
            return result

    async def _facts(self, connection: Connection, day: date) -> facts.DayFacts:
        return await _read(connection, partial(facts.of_day, connection, day, self.set_access.databases))

    async def _clear(self, connections: Sessions, day: date, by: Operator) -> None:
        """Detach and drop the tables of a day without leaves; a leaf that was made meanwhile keeps them."""
        connection = connections.work
        await detach(connection, day, connections.archive)
        await LOCK_RETRY.run(connection, partial(_drop_empty, connection, day, by), tables=[_claims(day)])

    async def _close(self, connections: Sessions, found: facts.DayFacts, by: Operator) -> None:
        """Prove, fence, prove again behind the fence, and enter the day as closed; or leave it as it was."""
        day, ours = found.day, sorted(xx for xx, state in found.states.items() if state is State.HOT)
        if not ours:
            return
        if not await is_fenced(connections.work, day):
            await self._prove_or_unfence(connections, found, ours, cheap_first=True)
            crash_points.reach(Point.PROVEN)
            await fence(connections.work, day)
        crash_points.reach(Point.FENCED)
        proof = await self._prove_or_unfence(connections, found, ours)
        crash_points.reach(Point.PROVEN_AGAIN)
        async with register.step(connections.work):
            await register.close(connections.work, day, proof.databases)
            for xx in ours:
                await register.note(connections.work, by, "closed", day, xx, proof.of(xx))
            crash_points.reach(Point.CLOSING)
        crash_points.reach(Point.CLOSED)

    async def _prove_or_unfence(
        self, connections: Sessions, found: facts.DayFacts, ours: Collection[int], *, cheap_first: bool = False
    ) -> Proof:
        """Prove the day. If that fails, lift its fence, also one that an interrupted run left, and raise DayUnproven.

        `cheap_first`: begin with the obstacles that a few queries find; the proof itself replays every envelope.
        """
        day, foreign, work = found.day, found.foreign_databases, connections.work
        wallet, now = await connections.wallet(), self.clock.now()
        proof = Proof(day, now, {})
        if cheap_first:
            known = partial(known_obstacles, work, wallet, day, slots_of_all(ours), foreign)
            for obstacle in await _read(work, known):
                proof.add(obstacle)
        if proof.holds:
            attempt = partial(
                prove, work, wallet, day, ours, foreign, now, lambda seen: self.progress("proving", seen, 0),
                ahead_s=ahead_ms(self.clock) / 1000,
            )  # fmt: skip
            proof = await _read(work, attempt)
        if proof.holds:
            return proof
        # The fence is that of all databases of the day: it stays if one of them is closed already.
        if set(found.states.values()) <= {State.HOT, State.DROPPED} and await is_fenced(work, day, least=1):
            await unfence(work, day)
        _log.warning("day unproven", set=self.set_access.name, day=str(day), in_the_way=proof.count)
        raise DayUnproven(self.set_access.name, proof)

    async def _detach(self, connections: Sessions, day: date, by: Operator) -> None:
        connection = connections.work
        closed = await _in_state(connection, day, State.CLOSED)
        if not closed:
            return
        self.progress("detaching", 0, len(closed))
        await detach(connection, day, connections.archive)
        crash_points.reach(Point.DETACHED_ALL)
        await self._drop_all_foreign(connection, day, by)
        for number, entry in enumerate(closed, 1):
            await LOCK_RETRY.run(connection, partial(_move, connection, entry, by), tables=[_claims(day)])
            crash_points.reach(Point.MOVED_ONE)
            self.progress("detaching", number, len(closed))

    async def _drop_all_foreign(self, connection: Connection, day: date, by: Operator) -> None:
        """Drop the empty leaves of other SETs' databases.

        Before the SET's own are advanced: once all of these are detached, no later run comes here.
        """
        for xx in (await self._facts(connection, day)).foreign_databases:
            await LOCK_RETRY.run(connection, partial(_drop_foreign, connection, xx, day, by), tables=[_claims(day)])

    async def _export(self, connections: Sessions, day: date, by: Operator) -> None:
        waiting = await _in_state(connections.work, day, State.DETACHED) if self.archive else []
        for number, entry in enumerate(waiting, 1):
            await archiving.export(connections, self.its_archive, entry, by)
            crash_points.reach(Point.EXPORTED_ONE)
            self.progress("exporting", number, len(waiting))

    async def _verify(self, connections: Sessions, day: date, by: Operator) -> None:
        """Read back what is exported; if nothing is waiting for that, read what is verified back once more."""
        waiting = await _in_state(connections.work, day, State.EXPORTED) if self.archive else []
        if self.archive and not waiting:
            waiting = await _in_state(connections.work, day, State.VERIFIED)
        for number, entry in enumerate(waiting, 1):
            await archiving.verify(connections, self.its_archive, entry, by)
            crash_points.reach(Point.VERIFIED_ONE)
            self.progress("verifying", number, len(waiting))

    @property
    def its_archive(self) -> ArchivePort:
        """The archive; raises Refused `no_archive` if none is set up."""
        if self.archive is None:
            raise Refused("no_archive", "no archive is set up; set HONGBAO_ARCHIVE and HONGBAO_ARCHIVE_KEY")
        return self.archive


async def _read(connection: Connection, work: Callable[[], Awaitable[T]]) -> T:
    """Await reads of a day again while somebody changes or rebuilds a table: they have the `lock_timeout` of our DDL.

    Only the first read of a table can meet that lock; to the end of their transaction no change of it comes in between.
    """
    return await LOCK_RETRY.run(connection, work, tables=[f"public.{kind.value}" for kind in names.TableKind])


async def _drop_empty(connection: Connection, day: date, by: Operator) -> None:
    async with register.step(connection):
        gone = await drop_empty(connection, day)
        await register.note(connection, by, "leafless_dropped", day, None, {"tables": gone})


async def _drop_foreign(connection: Connection, xx: int, day: date, by: Operator) -> None:
    async with register.step(connection):
        dropped = await drop_foreign(connection, xx, day)
        await register.note(connection, by, "strangers_dropped", day, xx, {"empty_leaves": dropped})


async def _move(connection: Connection, entry: Entry, by: Operator) -> None:
    async with register.step(connection):
        moved = await move_leaves(connection, entry.xx, entry.day)
        crash_points.reach(Point.MOVING)
        await register.advance(connection, entry.day, entry.xx, State.DETACHED)
        await register.note(connection, by, "detached", entry.day, entry.xx, {"leaves": moved})


def _check(set_name: str, found: facts.DayFacts, today: date) -> None:
    if not found.states and not found.empty:
        raise Refused("day_unknown", f"{set_name} has no tables of {found.day} and its register does not know that day")
    age = (today - found.day).days
    if age < MIN_AGE_DAYS:
        raise Refused(
            "day_too_young", f"{found.day} is {counted(age, 'day')} old; days are closed from {MIN_AGE_DAYS} days on"
        )


def _claims(day: date) -> str:
    return f"public.{names.day_table(names.TableKind.CLAIM, day)}"


async def _in_state(connection: Connection, day: date, state: State) -> list[Entry]:
    return [one for one in await register.entries(connection, day) if one.state is state]
