"""The register of the days and the operation log: read by everybody, moved on only here, one step at a time.

The guard in SQL asks for the proof of each step again, in the step's own transaction; a refusal rolls it back whole.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import asyncpg

from archive.states import State
from audit.sums import DaySums
from envelope.errors import Refused
from rotation.limits import REASON_CHARS
from rotation.proof import as_text

_GUARD = ("HB003", "HB004")
_INSERT = """
INSERT INTO day_register (day, xx, state, envelopes, claims, paid_in_fen, claimed_fen, refunded_fen)
SELECT $1, xx, 'closed', envelopes, claims, paid_in_fen, claimed_fen, refunded_fen
FROM unnest($2::smallint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[])
    AS said (xx, envelopes, claims, paid_in_fen, claimed_fen, refunded_fen)
"""
_ADVANCE = """
UPDATE day_register SET state = $3, since = now(), manifest_sha256 = coalesce($4, manifest_sha256)
WHERE day = $1 AND xx = $2
"""
_LOG = "INSERT INTO operation_log (who, what, day, xx, reason, proof) VALUES ($1, $2, $3, $4, $5, $6)"


@dataclass(frozen=True)
class Entry:
    """One row of the register."""

    day: date
    xx: int
    state: State
    since: datetime
    sums: DaySums
    manifest_sha256: str | None


@dataclass(frozen=True)
class Operator:
    """Who works, and why; both stand in the operation log."""

    who: str
    reason: str

    def __post_init__(self) -> None:
        """Refuse what the log could not hold."""
        if not self.who.strip() or len(self.who) > 64:  # noqa: PLR2004 - the log's column
            raise Refused("operator_unnamed", "say who works, in 1 to 64 characters")
        if not self.reason.strip() or len(self.reason) > REASON_CHARS:
            raise Refused("reason_missing", f"give a reason, in 1 to {REASON_CHARS} characters: it goes into the log")


async def entries(connection: Any, day: date | None = None) -> list[Entry]:
    """Return the register, of one day or of all, oldest first."""
    rows = await connection.fetch("SELECT * FROM day_register WHERE $1::date IS NULL OR day = $1 ORDER BY day, xx", day)
    return [
        Entry(
            row["day"], row["xx"], State(row["state"]), row["since"],
            DaySums(
                row["envelopes"], row["claims"], row["paid_in_fen"], row["claimed_fen"], row["refunded_fen"]
            ),
            row["manifest_sha256"],
        )
        for row in rows
    ]  # fmt: skip


async def close(connection: Any, day: date, databases: Mapping[int, DaySums]) -> None:
    """Enter the day as `closed`, all its databases at once. Raises Refused `step_refused`."""
    rows = [
        (xx, one.envelopes, one.claims, one.paid_in_fen, one.claimed_fen, one.refunded_fen)
        for xx, one in sorted(databases.items())
    ]
    await connection.execute(_INSERT, day, *map(list, zip(*rows, strict=True)))


async def advance(connection: Any, day: date, xx: int, state: State, digest: str | None = None) -> None:
    """Move one database of the day on to `state`. Raises Refused `step_refused` through `step`."""
    await connection.execute(_ADVANCE, day, xx, state.value, digest)


async def note(
    connection: Any, by: Operator, what: str, day: date, xx: int | None, proof: Mapping[str, Any] | None = None
) -> None:
    """Write a line of the operation log."""
    await connection.execute(_LOG, by.who, what, day, xx, by.reason, as_text(dict(proof or {})))


async def proof_of(connection: Any, day: date, xx: int) -> str | None:
    """Return what was proven when the day was closed, as JSON; None where the log does not say."""
    found: str | None = await connection.fetchval(
        "SELECT proof FROM operation_log WHERE what = 'closed' AND day = $1 AND xx = $2 ORDER BY entry_id DESC LIMIT 1",
        day, xx,
    )  # fmt: skip
    return found


@asynccontextmanager
async def step(connection: Any) -> AsyncIterator[None]:
    """One transaction with a step in it, durable at its end; what the guard refuses becomes Refused `step_refused`."""
    try:
        async with connection.transaction():
            yield
    except asyncpg.PostgresError as error:
        if getattr(error, "sqlstate", None) in _GUARD:
            raise Refused("step_refused", f"{error}; nothing was changed") from error
        raise
