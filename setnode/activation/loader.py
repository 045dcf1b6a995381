"""Loads the logs of LOADING actors from Postgres, many envelopes of one day in one query.

Every read is sealed before any reply (see the package). A round is bounded and takes the waiting days in turn. What a
load costs is its shares, so a round is bounded by them, too: what does not fit is read by the next. While the logs of
one round are restored here, Postgres reads the next. They are restored in slices, between which the loop serves others.
A day may go cold at any time: if the hot tables lack an envelope, the register is read after them, before the reply is
`not_found`.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from functools import partial
from typing import Any

from envelope.claim_log import ClaimLog
from errors import InvariantBroken, Unavailable
from runtime import logs, metrics, postgres
from schema.day_tables import known_days
from setnode.activation.cold import ColdEnvelopes
from setnode.activation.log_rows import ALL_SHARES, LOAD, restore
from setnode.actors.actor import Actor
from setnode.actors.phase import Phase
from setnode.header_seal import HeaderSeal
from setnode.limits import (
    LOAD_DEADLINE_S,
    LOAD_PAUSE_S,
    LOAD_READS,
    LOAD_ROUND,
    LOAD_SHARES,
    LOAD_SLICE_S,
    LOAD_SLOTS,
    STALE_S,
)
from sharding.ids import day_of, end_id, first_id, slot_of

# A commit: once it is replicated, so is all that was read before it.
SEAL = "SELECT pg_logical_emit_message(true, 'hongbao', 'reload')"

_log = logs.get("setnode")
_loaded = metrics.counter("hongbao_actors_loaded_total", "Envelopes read from Postgres into memory")

Read = tuple[date, list[Actor]]
"""What one query reads: envelopes of one day and of a few slots."""
Round = list[tuple[Actor, Any]]
"""What a round has read: actors and their rows, None for an envelope that the hot tables do not have."""


class Loader:
    """One task that serves the actors waiting for their log. An ID has one actor, so no log is read twice at once.

    `check` raises Unavailable if a connection does not lead to the Postgres to which claims are written.
    """

    def __init__(
        self,
        session: postgres.Session,
        cold: ColdEnvelopes,
        seal: HeaderSeal,
        check: Callable[[Any], None] = lambda _: None,
    ) -> None:
        self._session = session
        self._cold = cold
        self._header_seal = seal
        self._check = check
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
        giving: asyncio.Future[None] | None = None
        try:
            while True:
                await self._nonempty.wait()
                reads: list[Read] = []
                try:
                    await self._answer_other_days()
                    reads = self._next_round()
                    read_at = asyncio.get_running_loop().time()
                    found = await self._read_round(reads)
                    attempt = 0
                except Exception as error:  # noqa: BLE001 - every actor must get a reply, whatever the error was
                    self._put_back(reads, error)
                    attempt += 1
                    await postgres.pause(attempt, most_s=LOAD_PAUSE_S)
                else:
                    # One round at most is given out while the next is read, so memory holds two.
                    if giving is not None:
                        await giving
                    giving = asyncio.ensure_future(self._give(found, read_at))
                if not self._waiting:
                    self._nonempty.clear()
        finally:
            if giving is not None:
                giving.cancel()

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
        """Take what up to LOAD_READS queries read, one for each day in turn, and LOAD_ROUND actors at most.

        A day that has more goes to the end.
        """
        reads: list[Read] = []
        ready = deque(day for day in self._waiting if day is not None and day in self._days)
        left = LOAD_ROUND
        while ready and left and len(reads) < LOAD_READS:
            day = ready.popleft()
            slots = self._waiting.pop(day)
            actors = _take(slots, left)
            reads.append((day, actors))
            left -= len(actors)
            if slots:
                self._waiting[day] = slots
                ready.append(day)
        return reads

    async def _read_round(self, reads: Sequence[Read]) -> Round:
        """Run all reads and seal them with one commit; what is put off waits for the next round."""
        if not reads:
            return []
        rows, put_off = await self._session.run(partial(self._read_checked, reads), LOAD_DEADLINE_S)
        found: Round = []
        missing: set[date] = set()
        later: list[Actor] = []
        for day, actors in reads:
            for actor in actors:
                if actor.envelope_id in put_off:
                    later.append(actor)
                    continue
                row = rows.get(actor.envelope_id)
                found.append((actor, row))
                if row is None:
                    missing.add(day)
        if missing:
            # After the read: a day that the register does not call cold by now was hot during the read.
            await self._session.run(lambda connection: self._cold.refresh(connection, missing), LOAD_DEADLINE_S)
        for actor in later:
            self.enqueue(actor)
        return found

    async def _read_checked(self, reads: Sequence[Read], connection: Any) -> tuple[dict[int, Any], set[int]]:
        """Read as `_read_sealed`; raises what `check` raises if what this connection leads to may not be believed."""
        found = await _read_sealed(connection, reads)
        self._check(connection)
        return found

    async def _give(self, found: Round, read_at: float) -> None:
        """Give the actors of a round their logs, which were read after `read_at`."""
        began = time.perf_counter()
        for actor, row in found:
            if time.perf_counter() - began > LOAD_SLICE_S:
                await asyncio.sleep(0)
                began = time.perf_counter()
            try:
                self._activate(actor, None if row is None else restore(row, self._header_seal), read_at)
            except Exception as error:  # noqa: BLE001 - it freezes alone; the others of the round have their logs
                _log.error("an envelope cannot be activated", envelope_id=str(actor.envelope_id), exc_info=error)
                actor.freeze(InvariantBroken("envelope_activates", f"{type(error).__name__}: {error}"))

    def _activate(self, actor: Actor, found: ClaimLog | InvariantBroken | None, read_at: float) -> None:
        if found is None and self._cold.covers(actor.envelope_id):
            self._hand_to_cold(actor)
        elif found is None:
            _reply_not_found(actor)
        elif isinstance(found, InvariantBroken):
            actor.freeze(found)
        else:
            _loaded.inc()
            actor.loaded(found, read_at)

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
    rows = await _read(connection, day, envelope_ids, ALL_SHARES)
    await connection.execute(SEAL)
    return {envelope_id: restore(row, seal) for envelope_id, row in rows.items()}


async def _read_sealed(connection: Any, reads: Sequence[Read]) -> tuple[dict[int, Any], set[int]]:
    """Return the rows by envelope, and the envelopes put off to a later round: LOAD_SHARES are reached without them."""
    rows: dict[int, Any] = {}
    put_off: set[int] = set()
    shares_left = LOAD_SHARES
    for day, actors in reads:
        envelope_ids = [actor.envelope_id for actor in actors]
        if shares_left <= 0:
            put_off.update(envelope_ids)
            continue
        for envelope_id, row in (await _read(connection, day, envelope_ids, shares_left)).items():
            if row["put_off"]:
                put_off.add(envelope_id)
            else:
                rows[envelope_id] = row
                shares_left -= row["shares"] or 0
    await connection.execute(SEAL)
    return rows, put_off


async def _read(connection: Any, day: date, envelope_ids: Sequence[int], shares: int) -> dict[int, Any]:
    bounds = sorted(set(map(slot_of, envelope_ids))), first_id(day), end_id(day)
    rows = await connection.fetch(LOAD, envelope_ids, *bounds, shares)
    return {row["envelope_id"]: row for row in rows}


def _take(slots: dict[int, deque[Actor]], most: int) -> list[Actor]:
    """Take what one query may read: the slots that have waited longest, up to `most` actors."""
    taken: list[Actor] = []
    for slot in list(slots)[:LOAD_SLOTS]:
        if len(taken) == most:
            break
        actors = slots.pop(slot)
        while actors and len(taken) < most:
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
