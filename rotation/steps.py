"""The way of one day of one SET: closed, detached, exported, verified. Each run goes on where the last one stood."""

import json
import time
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from typing import Any

from envelope.errors import InvariantBroken, Refused
from rotation import crash, facts, register
from rotation.archive_seam import Archive, Written
from rotation.crash import Point
from rotation.detach import detach, drop_strangers, move_leaves
from rotation.exclusive import alone
from rotation.fence import fence, is_fenced, unfence
from rotation.limits import MIN_AGE_DAYS
from rotation.obstacles import Obstacle  # noqa: TC001 - plain imports everywhere
from rotation.patience import insist
from rotation.proof import DaySums, Proof, prove
from rotation.register import Entry, Operator
from rotation.states import State
from rotation.target import RotationTarget
from runtime import logs, postgres
from runtime.clock import Clock
from schema import names

_SPOILT = ("archive_missing", "archive_corrupt", "archive_forged")
"""What verifying may find that a new export cures: the tables still stand. A difference it does not: a person looks."""

Progress = Callable[[str, int, int], None]
"""Hears (what is being done, how much of it so far, of how much; 0: nobody knows)."""

_log = logs.get("rotation")


class DayUnproven(Refused):
    """The day owes something to somebody, or may; nothing was changed. `obstacles` are what stands in its way."""

    def __init__(self, set_name: str, proof: Proof) -> None:
        self.day = proof.day
        self.obstacles: list[Obstacle] = proof.obstacles
        self.count = proof.count
        first = "; ".join(one.detail for one in proof.obstacles[:3])
        super().__init__("day_unproven", f"{proof.day} of {set_name} stays: {first} ({proof.count} in its way)")


@dataclass
class Result:
    """What one run did to one day: the states by database at its end, and how long each step took, in seconds."""

    day: date
    states: dict[int, State] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Rotation:
    """Rotates days of one SET. Without an archive it goes as far as `detached`."""

    target: RotationTarget
    clock: Clock
    archive: Archive | None = None
    progress: Progress = lambda *_: None

    async def run(self, day: date, today: date, by: Operator, *, until: State = State.VERIFIED) -> Result:
        """Take the day as far as it goes, or `until` a state; every step done stays done, whatever becomes of the next.

        Refused: `rotation_busy`, `day_too_young`, `day_unknown`, `day_unproven` (a DayUnproven), `step_refused`, and
        what the archive refuses. Unavailable: `rotation_waits`, `database_unavailable`; the same call goes on later.
        """
        async with alone(self.target.dsn) as connection:
            found = await facts.of_day(connection, day)
            _check(self.target.name, found, today)
            result = Result(day)
            for state, name, work in (
                (State.CLOSED, "close", partial(self._close, connection, found, by)),
                (State.DETACHED, "detach", partial(self._detach, connection, day, by)),
                (State.EXPORTED, "export", partial(self._export, connection, day, by)),
                (State.VERIFIED, "verify", partial(self._verify, connection, day, by)),
            ):
                if state.rank > until.rank or (self.archive is None and state.rank > State.DETACHED.rank):
                    break
                started = time.perf_counter()
                await work()
                result.seconds[name] = round(time.perf_counter() - started, 3)
            result.states = {one.xx: one.state for one in await register.entries(connection, day)}
            return result

    async def _close(self, connection: Any, found: facts.DayFacts, by: Operator) -> None:
        """Prove, fence, prove again behind the fence, and write it into the register; or leave everything as it was."""
        if found.state is not State.HOT:
            return
        day = found.day
        ours = sorted(set(self.target.databases(day)) & set(found.states))
        if not await is_fenced(connection, day):
            proof = await self._prove(day, ours)
            if not proof.holds:
                await self._give_up(connection, day)
                raise DayUnproven(self.target.name, proof)
            crash.reach(Point.PROVEN)
            await fence(connection, day)
        crash.reach(Point.FENCED)
        proof = await self._prove(day, ours)
        if not proof.holds:
            await self._give_up(connection, day)
            raise DayUnproven(self.target.name, proof)
        crash.reach(Point.PROVEN_AGAIN)
        async with register.step(connection):
            await register.close(connection, day, proof.databases)
            for xx in ours:
                await register.note(connection, by, "closed", day, xx, proof.of(xx))
            crash.reach(Point.CLOSING)
        crash.reach(Point.CLOSED)

    async def _give_up(self, connection: Any, day: date) -> None:
        """Leave no fence, not even the half of one that an interrupted run left, round a day that is not proven."""
        if await is_fenced(connection, day, least=1):
            await unfence(connection, day)
        _log.warning("day unproven", set=self.target.name, day=str(day))

    async def _prove(self, day: date, databases: Collection[int]) -> Proof:
        return await prove(
            self.target.dsn, self.target.wallet_dsn, day, databases, self.clock.now(),
            lambda seen: self.progress("proving", seen, 0),
        )  # fmt: skip

    async def _detach(self, connection: Any, day: date, by: Operator) -> None:
        closed = await _in_state(connection, day, State.CLOSED)
        if not closed:
            return
        self.progress("detaching", 0, len(closed))
        await detach(connection, day)
        crash.reach(Point.DETACHED_ALL)
        for number, entry in enumerate(closed, 1):
            await insist(
                connection,
                partial(self._move, connection, entry, by),
                on=f"public.{names.day_table(names.Kind.CLAIM, day)}",
            )
            crash.reach(Point.MOVED_ONE)
            self.progress("detaching", number, len(closed))
        strangers = (await facts.of_day(connection, day)).strangers(await register.entries(connection, day))
        for xx in strangers:
            async with register.step(connection):
                dropped = await drop_strangers(connection, xx, day)
                await register.note(connection, by, "strangers_dropped", day, xx, {"empty_leaves": dropped})

    @staticmethod
    async def _move(connection: Any, entry: Entry, by: Operator) -> None:
        async with register.step(connection):
            moved = await move_leaves(connection, entry.xx, entry.day)
            crash.reach(Point.MOVING)
            await register.advance(connection, entry.day, entry.xx, State.DETACHED)
            await register.note(connection, by, "detached", entry.day, entry.xx, {"leaves": moved})

    async def _export(self, connection: Any, day: date, by: Operator) -> None:
        waiting = await _in_state(connection, day, State.DETACHED)
        for number, entry in enumerate(waiting, 1):
            await self._export_one(connection, entry, by)
            crash.reach(Point.EXPORTED_ONE)
            self.progress("exporting", number, len(waiting))

    async def _export_one(self, connection: Any, entry: Entry, by: Operator) -> str:
        proof = await register.proof_of(connection, entry.day, entry.xx)
        async with _another(self.target.dsn) as reading:
            written = await self._archive.export(
                reading, xx=entry.xx, day=entry.day, proof=None if proof is None else json.loads(proof)
            )
        _compare(entry, written)
        crash.reach(Point.EXPORT_WRITTEN)
        async with register.step(connection):
            await register.advance(connection, entry.day, entry.xx, State.EXPORTED, written.digest)
            await register.note(connection, by, "exported", entry.day, entry.xx, {"manifest": written.digest})
        return written.digest

    async def _verify(self, connection: Any, day: date, by: Operator) -> None:
        waiting = await _in_state(connection, day, State.EXPORTED)
        for number, entry in enumerate(waiting, 1):
            digest = entry.manifest_sha256
            try:
                verified = await self._read_back(entry)
            except Refused as refusal:
                if refusal.code not in _SPOILT:
                    raise
                _log.warning("archive spoilt, exported anew", day=str(day), xx=entry.xx, reason=refusal.detail)
                digest = await self._export_one(connection, entry, by)
                verified = await self._read_back(entry)
            _same_manifest(entry, digest, verified)
            crash.reach(Point.VERIFY_READ)
            async with register.step(connection):
                await register.advance(connection, day, entry.xx, State.VERIFIED)
                await register.note(connection, by, "verified", day, entry.xx, {"manifest": digest})
            crash.reach(Point.VERIFIED_ONE)
            self.progress("verifying", number, len(waiting))

    async def check_archive(self, entry: Entry) -> None:
        """Read an archive back and compare it once more; raises Refused where it is not the one of the register."""
        _same_manifest(entry, entry.manifest_sha256, await self._read_back(entry))

    @property
    def _archive(self) -> Archive:
        if self.archive is None:
            raise Refused("no_archive", "no archive is set up; set HONGBAO_ARCHIVE and HONGBAO_ARCHIVE_KEY")
        return self.archive

    async def _read_back(self, entry: Entry) -> Written:
        async with _another(self.target.dsn) as reading:
            return await self._archive.verify(reading, xx=entry.xx, day=entry.day)


@asynccontextmanager
async def _another(dsn: str) -> AsyncIterator[Any]:
    """Give a patient connection for long reads; the one that holds the lock stays free of their settings."""
    connection = await postgres.connect(dsn, application_name="hongbao:archive")
    try:
        yield connection
    finally:
        await connection.close(timeout=2.0)


def _check(set_name: str, found: facts.DayFacts, today: date) -> None:
    if not found.states:
        raise Refused("day_unknown", f"{set_name} has no tables of {found.day} and its register does not know that day")
    age = (today - found.day).days
    if age < MIN_AGE_DAYS:
        raise Refused("day_too_young", f"{found.day} is {age} days old; days are closed from {MIN_AGE_DAYS} days on")


async def _in_state(connection: Any, day: date, state: State) -> list[Entry]:
    return [one for one in await register.entries(connection, day) if one.state is state]


def _same_manifest(entry: Entry, digest: str | None, verified: Written) -> None:
    if verified.digest != digest:
        raise Refused(
            "archive_differs",
            f"the manifest of db_{entry.xx:02d} of {entry.day} is not the one in the register; nothing was changed",
        )


def _compare(entry: Entry, written: Written) -> None:
    """Hold the export's own sums against the register's; raises InvariantBroken."""
    told = DaySums(written.envelopes, written.claims, written.paid_in_fen, written.claimed_fen, written.refunded_fen)
    if told != entry.sums:
        raise InvariantBroken(
            "archive_holds_the_day",
            f"db_{entry.xx:02d} of {entry.day} was exported with {told}, closed with {entry.sums}",
        )
