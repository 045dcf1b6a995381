"""Events of one sink that its receiver refuses while it accepts others: retried apart, then dead letters.

While an event is retried, later events of its envelope wait behind it, in `event_retry`, so that they stay in order.
Once it is a dead letter they go on without it: receivers see the gap in `sequence`. An event that is woken gets a try
more than its schedule has: a failure of that one leaves the schedule as it is, so nobody who wakes it brings its end
nearer.
"""

import asyncio
from collections import Counter
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from errors import Refused
from events.event import Event
from events.limits import MAX_RETRIED, MAX_WAITING, RETRIES_AT_ONCE, RETRY_PAUSES_S, TRIM_ENTRIES
from events.outcome import GONE, Failed, Sender
from events.set_session import SetSession
from runtime import logs, sql
from runtime.postgres import Connection

_log = logs.get("events")

_HEADS = sql.read("events", "retried_envelopes")
_NEXT = sql.read("events", "next_retries")
_ADD = """INSERT INTO event_retry (sink, envelope_id, event_id, body, tries, next_at, reason)
VALUES ($1, $2, $3, $4, $5, now() + make_interval(secs => $6), $7) ON CONFLICT (sink, event_id) DO NOTHING"""
_DONE = "DELETE FROM event_retry WHERE retry_id = $1"
_HURRY = "UPDATE event_retry SET next_at = now() WHERE sink = $1 AND event_id = $2 AND next_at IS NOT NULL"
_WOKEN = "SELECT retry_id FROM event_retry WHERE sink = $1 AND next_at IS NOT NULL AND tries > 0"
_STILL = "UPDATE event_retry SET reason = $2 WHERE retry_id = $1"
_FAILED = """UPDATE event_retry SET tries = tries + 1, reason = $2,
    next_at = CASE WHEN $3::float8 IS NULL THEN NULL ELSE now() + make_interval(secs => $3) END
WHERE retry_id = $1 AND next_at = $4"""
"""Not if an operator has it sent again since it was read: then the pause is over."""
_DEAD = """SELECT sink, event_id, envelope_id, tries, since, reason, body FROM event_retry
WHERE next_at IS NULL AND ($1::text IS NULL OR sink = $1) ORDER BY retry_id LIMIT $2"""
_REDRIVE = """WITH found AS (
    SELECT retry_id, next_at IS NOT NULL AS retried FROM event_retry
    WHERE sink = $1 AND (next_at IS NULL OR tries > 0) AND ($2::text[] IS NULL OR event_id = ANY($2)) FOR UPDATE
)
UPDATE event_retry SET tries = retried::integer, next_at = now()
FROM found WHERE event_retry.retry_id = found.retry_id RETURNING event_id, retried"""
"""One that is retried keeps a try, by which it counts as refused; what waits behind one (no try) is left as it is."""
_BEHIND = "SELECT event_id FROM event_retry WHERE sink = $1 AND next_at IS NOT NULL AND event_id = ANY($2)"
_DROP = "DELETE FROM event_retry WHERE sink = $1 AND next_at IS NULL AND event_id = ANY($2) RETURNING event_id"


_DEAD_SINCE = """SELECT count(*), coalesce(sum(octet_length(body)), 0)::bigint, min(since),
    count(*) FILTER (WHERE old), coalesce(sum(octet_length(body)) FILTER (WHERE old), 0)::bigint
FROM (SELECT body, since, $1 > 0 AND since < now() - make_interval(days => $1) AS old
    FROM event_retry WHERE next_at IS NULL) dead"""
_DROP_DEAD = """DELETE FROM event_retry WHERE retry_id IN (
    SELECT retry_id FROM event_retry WHERE next_at IS NULL AND since < now() - make_interval(days => $1)
    ORDER BY retry_id LIMIT $2) RETURNING retry_id"""


class _Typed(msgspec.Struct):
    type: str


_read = msgspec.json.Decoder(_Typed).decode


class DeadLetter(NamedTuple):
    """An event that was given up."""

    sink: str
    event_id: str
    envelope_id: int
    tries: int
    since: datetime
    reason: str
    body: str


class Redriven(NamedTuple):
    """What is sent again from now on, in one SET; `waiting` was named and goes on behind an event of its envelope."""

    dead: list[str]
    retried: list[str]
    waiting: list[str]


class Retries:
    """Those of one sink in one SET; `waiting` says whether events of an envelope have to wait behind one of them."""

    def __init__(self, session: SetSession, set_name: str, sink: str, sender: Sender) -> None:
        self._session = session
        self._set = set_name
        self._sink = sink
        self._sender = sender
        self._waiting: Counter[int] = Counter()
        self._total = 0
        self._turn = asyncio.Lock()
        """Held while rows are added, or counted anew."""
        self._wake = True
        """Whether all are to be woken at the next look. So they are when a delivery begins."""
        self._woken: set[int] = set()
        """Those that are tried before their time."""

    def __len__(self) -> int:
        """Events that are retried apart, or wait behind one."""
        return self._total

    def full(self, envelope_id: int) -> str:
        """Say why no event of the envelope may be put here for now; "" if one may."""
        if not self.waiting(envelope_id) and len(self._waiting) >= MAX_RETRIED:
            return f"events of {len(self._waiting):,} envelopes are refused: all others wait until there are less"
        if len(self) >= MAX_WAITING:
            return f"{len(self):,} events are refused, or wait behind one that is: all others wait until there are less"
        return ""

    def waiting(self, envelope_id: int) -> bool:
        """Say whether the envelope has an event that is retried."""
        return envelope_id in self._waiting

    async def load(self) -> list[Any]:
        """Read which envelopes wait; returns the first event of each, without its body, in the order of their times."""
        async with self._turn:
            rows: list[Any] = await self._session.run(lambda connection: connection.fetch(_HEADS, self._sink))
            self._waiting = Counter({row["envelope_id"]: row["number"] for row in rows})
            self._total = self._waiting.total()
        return rows

    async def put(self, event: Event, tries: int, reason: str) -> None:
        """Take an event that is to be retried, or has to wait; durable when this returns."""
        text, pause_s = event.body.decode(), float(RETRY_PAUSES_S[0] if tries else 0)
        columns = self._sink, event.envelope_id, event.id, text, tries, pause_s, reason
        async with self._turn:
            self._waiting[event.envelope_id] += 1
            self._total += 1
            await self._session.run(lambda connection: connection.execute(_ADD, *columns))
        if tries:
            _log.warning(
                "event refused, retried apart", sink=self._sink, set=self._set, event_id=event.id, reason=reason
            )

    async def hurry(self, event_id: str) -> None:
        """Have an event retried at the next look, if it is here."""
        await self._session.run(lambda connection: connection.execute(_HURRY, self._sink, event_id))

    def wake(self) -> None:
        """Have everything that is retried tried once at the next look, besides its schedule."""
        self._wake = True

    async def run_once(self) -> int:
        """Send what is due or woken, of each envelope in order until one is refused; returns how many were accepted.

        Raises Refused `receiver_gone` if the receiver wants no events any more; what is retried is kept.
        """
        await self._wake_all()
        due = [one for one in await self.load() if one["due"] or one["retry_id"] in self._woken]
        accepted = 0
        for head in due[:RETRIES_AT_ONCE]:
            accepted += await self._send(head["envelope_id"], head["retry_id"])
        if due:
            await self.load()
        return accepted

    async def _send(self, envelope_id: int, first: int) -> int:
        """Send an envelope's events, RETRIES_AT_ONCE + 1 at most; returns how many were accepted before one was not.

        The first one alone is read at first: if it is refused, nobody needs those behind it.
        """
        accepted = 0
        for number in (1, RETRIES_AT_ONCE):
            which = self._sink, envelope_id, first, number
            rows = await self._session.run(lambda connection, which=which: connection.fetch(_NEXT, *which))  # type: ignore[misc]
            for row in rows:
                if not await self._accepted(row):
                    return accepted
                accepted += 1
        return accepted

    async def _accepted(self, row: Any) -> bool:
        """Send an event if it is due or woken, and say whether it was accepted; then it is gone from here."""
        retry_id = row["retry_id"]
        if not row["due"] and retry_id not in self._woken:
            return False
        self._woken.discard(retry_id)
        failure = await self._sender.send([_event(row)])
        if failure is None:
            await self._session.run(lambda connection: connection.execute(_DONE, retry_id))
            return True
        if failure.gone:
            raise Refused(GONE, failure.reason)
        await self._failed(row, failure)
        return False

    async def _wake_all(self) -> None:
        if self._wake:
            self._wake = False
            rows = await self._session.run(lambda connection: connection.fetch(_WOKEN, self._sink))
            self._woken = {row["retry_id"] for row in rows}

    async def _failed(self, row: Any, failure: Failed) -> None:
        """Note the failure; after the last pause the event is a dead letter."""
        retry_id, reason = row["retry_id"], failure.reason
        if not row["due"]:
            await self._session.run(lambda connection: connection.execute(_STILL, retry_id, reason))
            return
        pause_s = float(RETRY_PAUSES_S[row["tries"]]) if row["tries"] < len(RETRY_PAUSES_S) else None
        columns = retry_id, reason, pause_s, row["next_at"]
        await self._session.run(lambda connection: connection.execute(_FAILED, *columns))
        if pause_s is None:
            _log.error("event given up", sink=self._sink, set=self._set, event_id=row["event_id"], reason=reason)


def _event(row: Any) -> Event:
    body = row["body"].encode()
    return Event(row["envelope_id"], row["event_id"], _read(body).type, body)


async def dead_letters(connection: Connection, sink: str | None, limit: int) -> list[DeadLetter]:
    """Return dead letters of one sink, or of all, the oldest first."""
    return [DeadLetter(*row) for row in await connection.fetch(_DEAD, sink, limit)]


async def redrive(connection: Connection, sink: str, event_ids: list[str] | None) -> Redriven:
    """Have dead letters and events that are retried (None: all) tried now, and their three days begin anew.

    Events of one envelope stay in order. Durable when this returns.
    """
    rows = await connection.fetch(_REDRIVE, sink, event_ids)
    retried = [row["event_id"] for row in rows if row["retried"]]
    dead = [row["event_id"] for row in rows if not row["retried"]]
    others = sorted(set(event_ids or ()) - {*retried, *dead})
    behind = await connection.fetch(_BEHIND, sink, others) if others else []
    return Redriven(dead, retried, [row["event_id"] for row in behind])


async def drop(connection: Connection, sink: str, event_ids: list[str]) -> list[str]:
    """Delete dead letters; returns which."""
    return [row[0] for row in await connection.fetch(_DROP, sink, event_ids)]


class DeadSince(NamedTuple):
    """Dead letters of all sinks in one SET: how many, bytes, the oldest; and how many, and bytes, that are too old."""

    letters: int
    size: int
    oldest: datetime | None
    past: int
    past_size: int


async def dead_since(connection: Connection, days: int) -> DeadSince:
    """Count dead letters, and those that came more than `days` ago (0: none is too old)."""
    return DeadSince(*await connection.fetchrow(_DEAD_SINCE, days))


async def drop_dead(connection: Connection, days: int) -> int:
    """Delete dead letters that came more than `days` ago, TRIM_ENTRIES at most; returns how many."""
    return len(await connection.fetch(_DROP_DEAD, days, TRIM_ENTRIES))
