"""What the register and the catalog say of the days: which are hot, which have tables of their own, which are dropped.

Nothing else decides where a cold row is looked for; no clock does.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import Any


class State(StrEnum):
    """The states of `day_register`; no row is hot."""

    CLOSED = "closed"
    DETACHED = "detached"
    EXPORTED = "exported"
    VERIFIED = "verified"
    DROPPED = "dropped"


@dataclass(frozen=True)
class Standing:
    """A row of the register, and whether all tables of the day still belong to the hot ones. Amounts in fen."""

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

        The rotation detaches in its own time between `closed` and `detached`; in between the catalog knows.
        """
        return self.state is not State.CLOSED or not self.attached


Register = Mapping[tuple[date, int], Standing]
"""By (business date, xx)."""

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
WHERE $1::date[] IS NULL OR r.day = ANY($1::date[])
"""


async def read_register(connection: Any, days: Collection[date] | None = None) -> dict[tuple[date, int], Standing]:
    """Return what is said of `days`, or of all days. Index: the register's primary key. Lock: none."""
    rows = await connection.fetch(_READ, None if days is None else list(days))
    return {(row["day"], row["xx"]): _standing(row) for row in rows}


def _standing(row: Any) -> Standing:
    return Standing(
        State(row["state"]),
        row["manifest_sha256"],
        row["attached"],
        row["envelopes"],
        row["claims"],
        row["paid_in_fen"],
        row["claimed_fen"],
        row["refunded_fen"],
    )
