"""Reads the register of days: which are hot, which have tables of their own, which are dropped.

The register and the catalog alone decide where a cold row is read; no clock does.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from archive.states import State
from runtime.postgres import Connection


@dataclass(frozen=True)
class RegisterEntry:
    """A row of the register, and whether all tables of the day are still attached to the hot ones. Amounts in fen."""

    state: State
    manifest_sha256: str | None
    attached: bool
    envelopes: int
    claims: int
    paid_in_fen: int
    claimed_fen: int
    refunded_fen: int

    @property
    def dropped(self) -> bool:
        """Whether its rows are in the archive alone."""
        return self.state is State.DROPPED

    @property
    def cold(self) -> bool:
        """Whether its rows are no longer under the hot tables.

        The rotation detaches the tables before it records `detached`; in between the catalog decides.
        """
        return self.state is not State.CLOSED or not self.attached


Register = Mapping[tuple[date, int], RegisterEntry]
"""By (business date, xx)."""

NAMED = "SELECT manifest_sha256 FROM day_register WHERE day = $1 AND xx = $2"
"""The manifest's digest that the register names; None if it names none yet."""
_READ = """
SELECT r.day, r.xx, r.state, r.manifest_sha256, coalesce(a.kinds, 0) = 3 AS attached,
    r.envelopes, r.claims, r.paid_in_fen, r.claimed_fen, r.refunded_fen
FROM day_register r
LEFT JOIN (
    SELECT right(c.relname, 8) AS digits, count(*) AS kinds
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent IN ('public.envelope'::regclass, 'public.claim'::regclass, 'public.guest'::regclass)
        AND NOT i.inhdetachpending
    GROUP BY 1
) a ON a.digits = to_char(r.day, 'YYYYMMDD')
WHERE ($1::date[] IS NULL OR r.day = ANY($1::date[]))
    -- Leaves out dropped rows from before the watermark $2, the oldest transaction running then: a row written by an
    -- older transaction was visible to the earlier read.
    AND ($2::text IS NULL OR r.state <> 'dropped' OR age($2::xid) < 0 OR age(r.xmin) <= age($2::xid))
"""
_NOW = "SELECT pg_snapshot_xmin(pg_current_snapshot())::xid::text"


async def read_register(
    connection: Connection, days: Collection[date] | None = None, *, since: str | None = None
) -> dict[tuple[date, int], RegisterEntry]:
    """Return the entries of `days`, or of all days. Index: the register's primary key. Lock: none.

    With `since`, a `watermark` taken before an earlier read, dropped entries that were visible to that read are left
    out: a register grows for ever, and a dropped entry changes only when its archive is written anew (`users`).
    """
    rows = await connection.fetch(_READ, None if days is None else list(days), since)
    return {(row["day"], row["xx"]): _existing(row) for row in rows}


async def watermark(connection: Connection) -> str:
    """Return the oldest running transaction. Take it before a read; the next read passes it as `since`."""
    found: str = await connection.fetchval(_NOW)
    return found


def _existing(row: Any) -> RegisterEntry:
    return RegisterEntry(
        State(row["state"]),
        row["manifest_sha256"],
        row["attached"],
        row["envelopes"],
        row["claims"],
        row["paid_in_fen"],
        row["claimed_fen"],
        row["refunded_fen"],
    )
