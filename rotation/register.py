"""The register of days and the operation log: read by every room, advanced only here, one state at a time.

`close`, `advance` and `note` belong in one block of `step`: a transaction with the row's new state and its line of the
operation log. A guard in SQL proves the step again there; if it refuses, all of it is rolled back.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import asyncpg

from archive.states import State
from audit.sums import DaySums
from errors import Refused
from rotation.day_proof import as_text
from rotation.limits import REASON_CHARS, WHO_CHARS
from runtime.postgres import Connection

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
    """Who rotates, and why: a person or the daemon, as both stand in the operation log."""

    who: str
    reason: str

    def __post_init__(self) -> None:
        """Raise Refused `operator_unnamed` or `reason_missing` for a text that the log cannot hold."""
        if not self.who.strip() or len(self.who) > WHO_CHARS:
            raise Refused("operator_unnamed", f"give the operator's name, in 1 to {WHO_CHARS} characters")
        if not self.reason.strip() or len(self.reason) > REASON_CHARS:
            raise Refused("reason_missing", f"give a reason, in 1 to {REASON_CHARS} characters, for the operation log")


async def entries(connection: Connection, day: date | None = None) -> list[Entry]:
    """Return the register's rows of one day or of all days, oldest first."""
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


async def close(connection: Connection, day: date, databases: Mapping[int, DaySums]) -> None:
    """Enter the day as `closed` for all these databases. Not idempotent: none of them may have an entry of the day yet.

    Call it within `step`, which raises Refused `step_refused` if the guard refuses the close.
    """
    rows = [
        (xx, one.envelopes, one.claims, one.paid_in_fen, one.claimed_fen, one.refunded_fen)
        for xx, one in sorted(databases.items())
    ]
    await connection.execute(_INSERT, day, *map(list, zip(*rows, strict=True)))


async def advance(connection: Connection, day: date, xx: int, state: State, digest: str | None = None) -> None:
    """Advance one database's entry to `state`; `digest` is a new manifest's SHA-256. Call it within `step`."""
    await connection.execute(_ADVANCE, day, xx, state.value, digest)


async def note(
    connection: Connection, by: Operator, what: str, day: date, xx: int | None, proof: Mapping[str, Any] | None = None
) -> None:
    """Add a line to the operation log, in the caller's transaction."""
    await connection.execute(_LOG, by.who, what, day, xx, by.reason, as_text(dict(proof or {})))


async def proof_of(connection: Connection, day: date, xx: int) -> str | None:
    """Return what was proven when the day was closed, as JSON; None if the log has no such line."""
    found: str | None = await connection.fetchval(
        "SELECT proof FROM operation_log WHERE what = 'closed' AND day = $1 AND xx = $2 ORDER BY entry_id DESC LIMIT 1",
        day, xx,
    )  # fmt: skip
    return found


@asynccontextmanager
async def step(connection: Connection) -> AsyncIterator[None]:
    """Run the block in a transaction, durable at its end; raises Refused `step_refused` if the guard refuses it."""
    try:
        async with connection.transaction():
            yield
    except asyncpg.PostgresError as error:
        if getattr(error, "sqlstate", None) in _GUARD:
            raise Refused("step_refused", f"{error}; nothing was changed") from error
        raise
