"""Loads the logs of LOADING actors from Postgres, many envelopes of one day in one query.

Every read is sealed before any reply (see the package). A round is bounded and takes the waiting days in turn. What a
load costs is its shares, so a round is bounded by them, too: what does not fit is read by the next. Logs are restored
in slices, between which the loop serves others. A day may go cold at any time: if the hot tables lack an envelope, the
register is read after them, before the reply is `not_found`.
"""

import asyncio
import time
from collections import deque
from collections.abc import Iterable, Sequence
from datetime import date
from typing import Any

from envelope.claim_log import ClaimLog
from errors import InvariantBroken, Unavailable
from runtime import logs, metrics, postgres, sql
from schema.day_tables import known_days
from setnode.activation.cold import ColdEnvelopes
from setnode.activation.log_rows import LOAD, restore
from setnode.actors.actor import Actor
from setnode.actors.phase import Phase
from setnode.header_seal import HeaderSeal
from setnode.limits import (
    LOAD_BATCH,
    LOAD_DEADLINE_S,
    LOAD_PAUSE_S,
    LOAD_READS,
    LOAD_SHARES,
    LOAD_SLICE_S,
    LOAD_SLOTS,
    LOAD_UNMEASURED,
    STALE_S,
)
from sharding.ids import day_of, end_id, first_id, slot_of

# A commit: once it is replicated, so is all that was read before it.
_SIZES = sql.read("setnode", "envelope_sizes")
_SEAL = "SELECT pg_logical_emit_message(true, 'hongbao', 'reload')"

_log = logs.get("setnode")
_loaded = metrics.counter("hongbao_actors_loaded_total", "Envelopes read from Postgres into memory")

Read = tuple[date, list[Actor]]
"""What one query reads: envelopes of one day and of a few slots."""


class Loader:
    """One task that serves the actors waiting for their log. An ID has one actor, so no log is read twice at once."""

    def __init__(self, session: postgres.Session, cold: ColdEnvelopes, seal: HeaderSeal) -> None:
        self._session = session
        self._cold = cold
        self._header_seal = seal
        self._waiting: dict[date | None, dict[int, deque[Actor]]] = {}
        """By day, then by slot; None for IDs whose day does not exist."""
        self._nonempty = asyncio.Event()
        self._days: set[date] = set()
        """Days that had tables at the last look."""

    def enqueue(self, actor: Actor) -> None:
        """Add an actor that is LOADING."""
        envelope_id = actor.envelope_id
        slots = self._waiting.setdefault(_day(envelope_id), {})
        slots.setdefault(slot_of(envelope_id), deque()).append(actor)
        self._nonempty.set()

    async def run(self) -> None:
        """Serve until cancelled. While Postgres is away actors wait; requests older than STALE_S are rejected."""
        attempt = 0
        while True:
            await self._nonempty.wait()
            reads: list[Read] = []
            try:
                await self._answer_other_days()
                reads = self._next_round()
                await self._serve(reads)
                attempt = 0
            except Exception as error:  # noqa: BLE001 - every actor must get a reply, whatever the error was
                self._put_back(reads, error)
                attempt += 1
                await postgres.pause(attempt, most_s=LOAD_PAUSE_S)
            if not self._waiting:
                self._nonempty.clear()

    async def _answer_other_days(self) -> None:
        """Answer for the days that have no hot tables here, with one look at catalog and register at most."""
        if self._hand_over_cold():
            return
        unknown = [day for day in self._waiting if day not in self._days]
        self._days = await self._session.run(lambda connection: self._look(connection, unknown), LOAD_DEADLINE_S)
        self._hand_over_cold()
        # Only these: catalog and register were not read for days that came up meanwhile.
        for day in unknown:
            if day not in self._days:
                for actor in _all_of(self._waiting.pop(day, {})):
                    _reply_not_found(actor)

    def _hand_over_cold(self) -> bool:
        """Hand over the actors of days known to be cold; returns whether the days of all others have tables."""
        for day in [day for day in self._waiting if day is not None and day not in self._days]:
            slots = self._waiting[day]
            for slot in [slot for slot, actors in slots.items() if self._cold.covers(actors[0].envelope_id)]:
                for actor in slots.pop(slot):
                    self._hand_to_cold(actor)
            if not slots:
                del self._waiting[day]
        return self._waiting.keys() <= self._days

    async def _look(self, connection: Any, days: Iterable[date | None]) -> set[date]:
        known = await known_days(connection)
        await self._cold.refresh(connection, [day for day in days if day is not None])
        return known

    def _hand_to_cold(self, actor: Actor) -> None:
        actor.context.forget(actor)
        self._cold.answer(actor.envelope_id, actor.take_waiting())

    def _next_round(self) -> list[Read]:
        """Take what up to LOAD_READS queries read, one for each day in turn; a day with more goes to the end."""
        reads: list[Read] = []
        ready = deque(day for day in self._waiting if day is not None and day in self._days)
        while ready and len(reads) < LOAD_READS:
            day = ready.popleft()
            slots = self._waiting.pop(day)
            reads.append((day, _take(slots)))
            if slots:
                self._waiting[day] = slots
                ready.append(day)
        return reads

    async def _serve(self, reads: Sequence[Read]) -> None:
        """Run all reads, seal them with one commit, then give the actors their logs."""
        if not reads:
            return
        rows, put_off = await self._session.run(lambda connection: _read_sealed(connection, reads), LOAD_DEADLINE_S)
        missing = {
            day
            for day, actors in reads
            if any(actor.envelope_id not in rows and actor.envelope_id not in put_off for actor in actors)
        }
        if missing:
            # After the read: a day that the register does not call cold by now was hot during the read.
            await self._session.run(lambda connection: self._cold.refresh(connection, missing), LOAD_DEADLINE_S)
        began = time.perf_counter()
        for _, actors in reads:
            for actor in actors:
                if actor.envelope_id in put_off:
                    self.enqueue(actor)
                    continue
                if time.perf_counter() - began > LOAD_SLICE_S:
                    await asyncio.sleep(0)
                    began = time.perf_counter()
                row = rows.get(actor.envelope_id)
                try:
                    self._activate(actor, None if row is None else restore(row, self._header_seal))
                except Exception as error:  # noqa: BLE001 - it freezes alone; the others of the round have their logs
                    _log.error("an envelope cannot be activated", envelope_id=str(actor.envelope_id), exc_info=error)
                    actor.freeze(InvariantBroken("envelope_activates", f"{type(error).__name__}: {error}"))

    def _activate(self, actor: Actor, found: ClaimLog | InvariantBroken | None) -> None:
        if found is None and self._cold.covers(actor.envelope_id):
            self._hand_to_cold(actor)
        elif found is None:
            _reply_not_found(actor)
        elif isinstance(found, InvariantBroken):
            actor.freeze(found)
        else:
            _loaded.inc()
            actor.loaded(found)

    def _put_back(self, reads: Iterable[Read], error: Exception) -> None:
        """Enqueue again the actors with a request younger than STALE_S; reject the requests of the others."""
        self._session.drop()
        _log.warning("loading failed", error=f"{type(error).__name__}: {error}")
        away = Unavailable("database_unavailable", "the database does not answer; try again shortly")
        waiting, self._waiting = self._waiting, {}
        for actor in [
            *(actor for _, actors in reads for actor in actors),
            *(actor for slots in waiting.values() for actor in _all_of(slots)),
        ]:
            if actor.phase is not Phase.LOADING:
                continue
            if actor.oldest_at > asyncio.get_running_loop().time() - STALE_S:
                self.enqueue(actor)
            else:
                actor.reject_waiting(away)
                actor.context.forget(actor)


async def fetch_logs(
    connection: Any, day: date, envelope_ids: Sequence[int], seal: HeaderSeal
) -> dict[int, ClaimLog | InvariantBroken]:
    """Read the logs of envelopes of one day, sealed by a commit; a broken log is returned as its error."""
    rows = await _read(connection, day, envelope_ids)
    await connection.execute(_SEAL)
    return {envelope_id: restore(row, seal) for envelope_id, row in rows.items()}


async def _read_sealed(connection: Any, reads: Sequence[Read]) -> tuple[dict[int, Any], set[int]]:
    """Return the rows by envelope, and the envelopes that are put off: the rows have LOAD_SHARES without them."""
    rows: dict[int, Any] = {}
    put_off: set[int] = set()
    shares_left = LOAD_SHARES
    for day, actors in reads:
        envelope_ids = [actor.envelope_id for actor in actors]
        if shares_left <= 0:
            put_off.update(envelope_ids)
            continue
        measured = len(envelope_ids) > LOAD_UNMEASURED
        if measured:
            sizes = await connection.fetch(_SIZES, *_bounds(day, envelope_ids))
            envelope_ids = []
            for envelope_id, shares in sizes:
                if shares_left > 0:
                    envelope_ids.append(envelope_id)
                    shares_left -= shares
                else:
                    put_off.add(envelope_id)
        if envelope_ids:
            found = await _read(connection, day, envelope_ids)
            rows.update(found)
            if not measured:
                shares_left -= sum(row["shares"] or 0 for row in found.values())
    await connection.execute(_SEAL)
    return rows, put_off


async def _read(connection: Any, day: date, envelope_ids: Sequence[int]) -> dict[int, Any]:
    rows = await connection.fetch(LOAD, *_bounds(day, envelope_ids))
    return {row["envelope_id"]: row for row in rows}


def _bounds(day: date, envelope_ids: Sequence[int]) -> tuple[Sequence[int], list[int], int, int]:
    """Return the parameters of the queries: IDs, their slots, the day's first and end ID."""
    return envelope_ids, sorted(set(map(slot_of, envelope_ids))), first_id(day), end_id(day)


def _take(slots: dict[int, deque[Actor]]) -> list[Actor]:
    """Take what one query may read: the slots that have waited longest, up to LOAD_BATCH actors."""
    taken: list[Actor] = []
    for slot in list(slots)[:LOAD_SLOTS]:
        if len(taken) == LOAD_BATCH:
            break
        actors = slots.pop(slot)
        while actors and len(taken) < LOAD_BATCH:
            taken.append(actors.popleft())
        if actors:
            slots[slot] = actors
    return taken


def _all_of(slots: dict[int, deque[Actor]]) -> Iterable[Actor]:
    return (actor for actors in slots.values() for actor in actors)


def _reply_not_found(actor: Actor) -> None:
    actor.reply_not_found()
    actor.context.forget(actor)


def _day(envelope_id: int) -> date | None:
    """Return the business day of an ID; None if that day does not exist, and so has no tables."""
    try:
        return day_of(envelope_id)
    except ValueError:
        return None
