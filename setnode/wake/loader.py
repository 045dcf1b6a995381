"""Wakes actors: reads headers and logs from Postgres, many envelopes of one day in one query.

The read commits something itself before anybody is answered from it: on a server with synchronous replication a row
may be visible before it is replicated, and a replayed answer must be as durable as the first one was.

IDs come from outside and may be made up. So a round is bounded and goes in turn over the days that are asked for, and
all that ask for days without tables are answered after one look at the catalog.

A day may have gone cold since it was last looked at. So what the hot tables do not have is `not_found` only after the
register was asked, later than they were; what is cold is handed over to `setnode.wake.cold`.
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from datetime import date
from typing import Any

from envelope.claim_log import ClaimLog
from envelope.errors import InvariantBroken, Unavailable
from runtime import logs, metrics, postgres
from schema.day_tables import known_days
from setnode.actors.actor import Actor
from setnode.actors.stage import Phase
from setnode.limits import LOAD_BATCH, LOAD_PATIENCE_S, LOAD_READS, LOAD_SLOTS, STALE_S
from setnode.wake.cold import Cold
from setnode.wake.reading import LOAD, restore
from sharding.ids import day_of, end_id, first_id, slot_of

_SEAL = "SELECT pg_logical_emit_message(true, 'hongbao', 'reload')"

_log = logs.get("setnode")
_loaded = metrics.counter("hongbao_actors_loaded_total", "Envelopes read from Postgres into memory")

Share = tuple[date, list[Actor]]
"""What one query reads: envelopes of one day and of a few slots."""


class Loader:
    """One task that serves the actors waiting for their log; single-flight by construction (one actor per ID)."""

    def __init__(self, session: postgres.Session, cold: Cold) -> None:
        self._session = session
        self._cold = cold
        self._waiting: dict[date | None, dict[int, deque[Actor]]] = {}
        self._wanted = asyncio.Event()
        self._days: set[date] = set()
        self.loads = 0
        self.reads = 0

    def want(self, actor: Actor) -> None:
        """Put an actor on the list."""
        envelope_id = actor.envelope_id
        slots = self._waiting.setdefault(_day(envelope_id), {})
        slots.setdefault(slot_of(envelope_id), deque()).append(actor)
        self._wanted.set()

    async def run(self) -> None:
        """Serve until cancelled. While Postgres is away actors keep waiting, requests as long as their callers."""
        attempt = 0
        while True:
            await self._wanted.wait()
            shares: list[Share] = []
            try:
                await self._dismiss()
                shares = self._next_round()
                await self._serve(shares)
                attempt = 0
            except Exception as error:  # noqa: BLE001 - whatever it was, the actors must not wait for ever
                self._put_back(shares, error)
                attempt += 1
                await postgres.pause(attempt, most_s=0.5)
            if not self._waiting:
                self._wanted.clear()

    async def _dismiss(self) -> None:
        """Answer for the days that have no tables here, all at once and with one look at the catalog, however many."""
        if self._hand_over():
            return
        unknown = [day for day in self._waiting if day not in self._days]
        self._days = await self._session.patiently(lambda connection: self._look(connection, unknown), LOAD_PATIENCE_S)
        self._hand_over()
        # No others: what came during the look was not looked for.
        for day in unknown:
            if day not in self._days:
                for actor in _all_of(self._waiting.pop(day, {})):
                    _no_such(actor)

    def _hand_over(self) -> bool:
        """Hand those over whose days are known to be cold; returns whether all others ask for days with tables."""
        for day in [day for day in self._waiting if day is not None and day not in self._days]:
            slots = self._waiting[day]
            for slot in [slot for slot, actors in slots.items() if self._cold.covers(actors[0].envelope_id)]:
                for actor in slots.pop(slot):
                    self._gone(actor)
            if not slots:
                del self._waiting[day]
        return self._waiting.keys() <= self._days

    async def _look(self, connection: Any, days: Iterable[date | None]) -> set[date]:
        known = await known_days(connection)
        await self._cold.look(connection, [day for day in days if day is not None])
        return known

    def _gone(self, actor: Actor) -> None:
        actor.stage.forget(actor)
        self._cold.take(actor.envelope_id, actor.give_up())

    def _next_round(self) -> list[Share]:
        """Take up to LOAD_READS queries' worth, one day after the other; a day not exhausted goes to the end."""
        shares: list[Share] = []
        ready = deque(day for day in self._waiting if day is not None and day in self._days)
        while ready and len(shares) < LOAD_READS:
            day = ready.popleft()
            slots = self._waiting.pop(day)
            shares.append((day, _take(slots)))
            if slots:
                self._waiting[day] = slots
                ready.append(day)
        return shares

    async def _serve(self, shares: Sequence[Share]) -> None:
        """Read all shares, seal them with one commit, then wake their actors."""
        if not shares:
            return
        found = await self._session.patiently(lambda connection: self._read_all(connection, shares), LOAD_PATIENCE_S)
        lost = {day for day, actors in shares if any(actor.envelope_id not in found for actor in actors)}
        if lost:
            # After the read: what is hot by now was hot then.
            await self._session.patiently(lambda connection: self._cold.look(connection, lost), LOAD_PATIENCE_S)
        for _, actors in shares:
            for actor in actors:
                self._wake(actor, found.get(actor.envelope_id))

    async def _read_all(self, connection: Any, shares: Sequence[Share]) -> dict[int, ClaimLog | InvariantBroken]:
        found: dict[int, ClaimLog | InvariantBroken] = {}
        for day, actors in shares:
            self.reads += 1
            found.update(await _read(connection, day, [actor.envelope_id for actor in actors]))
        await connection.execute(_SEAL)
        return found

    def _wake(self, actor: Actor, found: ClaimLog | InvariantBroken | None) -> None:
        if found is None and self._cold.covers(actor.envelope_id):
            self._gone(actor)
        elif found is None:
            _no_such(actor)
        elif isinstance(found, InvariantBroken):
            actor.freeze(found)
        else:
            self.loads += 1
            _loaded.inc()
            actor.loaded(found)

    def _put_back(self, shares: Iterable[Share], error: Exception) -> None:
        """Keep those whose callers still wait for the next turn; tell the others that the database is away."""
        self._session.drop()
        _log.warning("loading failed", error=f"{type(error).__name__}: {error}")
        away = Unavailable("database_unavailable", "the database does not answer; try again shortly")
        waiting, self._waiting = self._waiting, {}
        for actor in [
            *(actor for _, actors in shares for actor in actors),
            *(actor for slots in waiting.values() for actor in _all_of(slots)),
        ]:
            if actor.phase is not Phase.LOADING:
                continue
            if actor.oldest > asyncio.get_running_loop().time() - STALE_S:
                self.want(actor)
            else:
                actor.turn_away(away)
                actor.stage.forget(actor)


async def fetch_logs(connection: Any, day: date, envelope_ids: Sequence[int]) -> dict[int, ClaimLog | InvariantBroken]:
    """Read the logs of envelopes of one day, sealed by a commit; a broken one comes as its error."""
    found = await _read(connection, day, envelope_ids)
    await connection.execute(_SEAL)
    return found


async def _read(connection: Any, day: date, envelope_ids: Sequence[int]) -> dict[int, ClaimLog | InvariantBroken]:
    slots = sorted({slot_of(envelope_id) for envelope_id in envelope_ids})
    rows = await connection.fetch(LOAD, envelope_ids, slots, first_id(day), end_id(day))
    return {row["envelope_id"]: restore(row) for row in rows}


def _take(slots: dict[int, deque[Actor]]) -> list[Actor]:
    """Take what one query may read: the slots that have waited longest, a crowded one in parts."""
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


def _no_such(actor: Actor) -> None:
    actor.not_found()
    actor.stage.forget(actor)


def _day(envelope_id: int) -> date | None:
    """Return the business day of an ID; None for a day that never was, which has no tables either."""
    try:
        return day_of(envelope_id)
    except ValueError:
        return None
