"""Sinks as a SET's `event_sink` holds them: who receives events, and what an operator has decided about it.

An operator's command writes the same sink into every SET; each SET delivers what it has committed, from a cursor of its
own, whatever becomes of the others.
"""

import secrets
from base64 import b64encode
from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from events.cursor import Cursor
from runtime.postgres import Connection

SECRET_PREFIX = "whsec_"  # noqa: S105 - it says what follows
SECRET_BYTES = 32


class Kind(StrEnum):
    """What a sink is."""

    WEBHOOK = "webhook"
    NATS = "nats"
    TAIL = "tail"


class State(StrEnum):
    """Whether a sink gets events: `paused` by an operator, `disabled` because its receiver failed or wants none."""

    ACTIVE = "active"
    PAUSED = "paused"
    DISABLED = "disabled"


class Target(NamedTuple):
    """What an operator says of a sink; `types` empty: all events. `secrets`: of a webhook, the newest first."""

    name: str
    kind: str
    address: str
    types: tuple[str, ...] = ()
    batch: int = 1
    private_addresses: bool = False
    secrets: tuple[str, ...] = ()
    old_secrets_until: datetime | None = None


class Refusal(NamedTuple):
    """What a receiver refuses while it accepts others: how many events, and of the oldest the last answer.

    `next_at`: when the oldest is tried again, unless it is woken.
    """

    number: int
    event_id: str
    since: datetime
    reason: str
    next_at: datetime

    @property
    def sentence(self) -> str:
        """Name the event, since when, and the answer."""
        since = f"since {self.since:%Y-%m-%d %H:%M} UTC"
        if self.number == 1:
            return f"refuses {self.event_id} {since}, and accepts others: {self.reason}"
        return f"refuses {self.number:,} events, {self.event_id} {since}, and accepts others: {self.reason}"


class Sink(NamedTuple):
    """A sink in one SET.

    `since`: when it came into its state; one that was removed and added again has another one. `behind_s`: how old the
    oldest entry is that it has not passed, 0 if there is none. `retried`: events that are refused, and those that wait
    behind one.
    """

    target: Target
    state: str
    reason: str
    since: datetime
    cursor: Cursor
    delivered: int
    delivered_at: datetime | None
    error: str
    failing_since: datetime | None
    lost_until: datetime | None
    behind_s: float
    retried: int
    dead: int
    refused: Refusal | None


_LIST = """-- list_sinks: all sinks but tails, with their cursors. Index: none; there are a few. Lock: none.
-- Of what is retried one look reads all, so it is one look.
SELECT name, kind, address, types, batch, private_addresses, secrets, old_secrets_until, state, event_sink.reason,
    event_sink.since,
    seen::text, upto::text, after_xid::text, after_entry, delivered, delivered_at, error, failing_since, lost_until,
    coalesce(extract(epoch FROM now() - (
        SELECT written_at FROM event_log
        WHERE (xid, entry_id) > (greatest(after_xid, pg_snapshot_xmin(seen)), after_entry)
            AND NOT pg_visible_in_snapshot(xid, seen)
        ORDER BY xid, entry_id LIMIT 1)), 0)::float8 AS behind_s,
    apart.retried, apart.dead, apart.refused, first.event_id, first.since, first.reason, first.next_at
FROM event_sink JOIN event_cursor ON event_cursor.sink = name
CROSS JOIN LATERAL (
    SELECT count(next_at) AS retried, count(*) - count(next_at) AS dead,
        count(next_at) FILTER (WHERE tries > 0) AS refused,
        min(retry_id) FILTER (WHERE tries > 0 AND next_at IS NOT NULL) AS first
    FROM event_retry WHERE event_retry.sink = name
) AS apart
LEFT JOIN event_retry AS first ON first.retry_id = apart.first
WHERE kind <> 'tail' ORDER BY name"""
_ADD = """WITH added AS (
    INSERT INTO event_sink (name, kind, address, types, batch, private_addresses, secrets, old_secrets_until)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (name) DO NOTHING RETURNING name
)
INSERT INTO event_cursor (sink) SELECT name FROM added RETURNING sink"""
_STATE = """WITH changed AS (
    UPDATE event_sink SET state = $2::varchar, reason = $3, since = now() WHERE name = $1 RETURNING name
)
UPDATE event_cursor SET failing_since = NULL,
    lost_until = CASE WHEN $2::varchar = 'active' THEN NULL ELSE lost_until END
FROM changed WHERE sink = name RETURNING sink"""
_DISABLE = "UPDATE event_sink SET state = 'disabled', reason = $2, since = now() WHERE name = $1 AND since = $3"
_FAILING = """UPDATE event_cursor SET error = $2, failing_since = coalesce(failing_since, now())
FROM event_sink WHERE sink = $1 AND name = $1 AND since = $3"""
_SECRETS = "UPDATE event_sink SET secrets = $2, old_secrets_until = $3 WHERE name = $1 RETURNING name"
_ADD_TAIL = """WITH added AS (
    INSERT INTO event_sink (name, kind, address, expires_at)
    VALUES ($1, 'tail', '', now() + make_interval(secs => $2)) RETURNING name
)
INSERT INTO event_cursor (sink) SELECT name FROM added RETURNING seen::text"""
_MOVE_TAIL = """UPDATE event_cursor SET seen = $2::text::pg_snapshot, upto = $2::text::pg_snapshot
WHERE sink = $1 RETURNING sink"""
_EXTEND_TAIL = """UPDATE event_sink SET expires_at = now() + make_interval(secs => $2)
WHERE name = $1 AND expires_at < now() + make_interval(secs => $2 * 2 / 3)"""


async def list_sinks(connection: Connection) -> list[Sink]:
    """Return all sinks of a SET, by name."""
    return [_sink(row) for row in await connection.fetch(_LIST)]


def _sink(row: Sequence[object]) -> Sink:
    name, kind, address, types, batch, private, keys, until, state, reason, since, *rest = row
    seen, upto, after_xid, after_entry, delivered, delivered_at, error, failing, lost, behind_s, *apart = rest
    retried, dead, *refused = apart
    target = Target(name, kind, address, tuple(types), batch, private, tuple(keys), until)  # type: ignore[arg-type]
    return Sink(
        target, state, reason, since, Cursor(seen, upto, after_xid, after_entry), delivered, delivered_at, error,  # type: ignore[arg-type]
        failing, lost, behind_s, retried, dead, Refusal(*refused) if refused[0] else None,  # type: ignore[arg-type]
    )  # fmt: skip


async def add(connection: Connection, target: Target) -> bool:
    """Add a sink that receives what is committed from now on; False if its name is taken. Durable when it returns."""
    return await connection.fetchval(_ADD, *target) is not None


async def remove(connection: Connection, name: str) -> bool:
    """Remove a sink with its cursor and dead letters; False if there is none."""
    return await connection.fetchval("DELETE FROM event_sink WHERE name = $1 RETURNING name", name) is not None


async def set_state(connection: Connection, name: str, state: State, reason: str = "") -> bool:
    """Set a sink's state, as an operator; False if there is none."""
    return await connection.fetchval(_STATE, name, state.value, reason) is not None


async def disable(connection: Connection, name: str, since: datetime, reason: str) -> None:
    """Disable a sink whose receiver failed, if its state is that of `since`; an operator resumes it."""
    await connection.execute(_DISABLE, name, reason, since)


async def note_failure(connection: Connection, name: str, since: datetime, reason: str) -> None:
    """Show a sink as failing, if its state is that of `since`; the next accepted call ends it."""
    await connection.execute(_FAILING, name, reason, since)


async def set_secrets(connection: Connection, name: str, keys: Sequence[str], old_until: datetime | None) -> bool:
    """Replace what a webhook's calls are signed with; False if there is no such sink."""
    return await connection.fetchval(_SECRETS, name, list(keys), old_until) is not None


async def add_tail(connection: Connection, name: str, lives_s: float) -> Cursor:
    """Add a reader that follows the log for a while, and return where it begins: at the present."""
    seen = await connection.fetchval(_ADD_TAIL, name, lives_s)
    return Cursor(seen, seen)


async def keep_tail(connection: Connection, name: str, cursor: Cursor, lives_s: float) -> bool:
    """Extend a tail's life and move its cursor; False if it had expired and was removed."""
    await connection.execute(_EXTEND_TAIL, name, lives_s)
    return await connection.fetchval(_MOVE_TAIL, name, cursor.seen) is not None


def new_secret() -> str:
    """Return a new signing secret, as Standard Webhooks writes them."""
    return SECRET_PREFIX + b64encode(secrets.token_bytes(SECRET_BYTES)).decode()
