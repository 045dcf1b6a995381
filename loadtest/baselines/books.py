"""The baselines' tables and the check of their money.

Plain tables, one for envelopes and one for claims, each with the one key that the baselines look up by: the best case
for them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from runtime import postgres

SCHEMA = """
CREATE SCHEMA IF NOT EXISTS baseline;
CREATE TABLE IF NOT EXISTS baseline.envelope (
    envelope_id bigint  PRIMARY KEY,
    total_fen   bigint  NOT NULL,
    left_fen    bigint  NOT NULL CHECK (left_fen >= 0),
    shares      integer NOT NULL,
    left_count  integer NOT NULL CHECK (left_count >= 0),
    version     integer NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
CREATE TABLE IF NOT EXISTS baseline.claim (
    envelope_id bigint      NOT NULL,
    amount_fen  bigint      NOT NULL,
    claimed_at  timestamptz NOT NULL DEFAULT now(),
    user_id     varchar(40) NOT NULL,
    PRIMARY KEY (envelope_id, user_id)
);
"""
# Half-filled pages: an update of the stock stays on its page and touches no index.

_FILL = """
INSERT INTO baseline.envelope (envelope_id, total_fen, left_fen, shares, left_count)
SELECT id, $2, $2, $3, $3 FROM unnest($1::bigint[]) AS id
"""
_SUMS = """
SELECT (SELECT count(*) FROM baseline.claim) AS claims,
       (SELECT coalesce(sum(amount_fen), 0)::bigint FROM baseline.claim) AS claimed_fen,
       (SELECT coalesce(sum(total_fen), 0)::bigint FROM baseline.envelope) AS paid_in_fen,
       (SELECT count(*) FROM (
           SELECT 1 FROM baseline.claim c JOIN baseline.envelope e USING (envelope_id)
           GROUP BY envelope_id, e.shares, e.total_fen
           HAVING count(*) > e.shares OR sum(c.amount_fen) > e.total_fen OR min(c.amount_fen) < 1) AS over) AS oversold
"""

Win = tuple[int, str, int]
"""Envelope, user, amount in fen: an answer that won a share."""


@dataclass(frozen=True)
class Money:
    """What a check found. `lost` are wins that were answered and are not in Postgres."""

    answered: int
    stored: int
    lost: int
    oversold: int
    unreconciled_fen: int

    @property
    def holds(self) -> bool:
        """Whether every fen is accounted for and every answer true."""
        return not (self.lost or self.oversold or self.unreconciled_fen)


class Books:
    """The baselines' tables in one database, over a connection of the check's own."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    @classmethod
    async def make(cls, dsn: str) -> "Books":
        """Make the tables where they are missing."""
        connection = await postgres.connect(dsn)
        await connection.execute(SCHEMA)
        return cls(connection)

    async def prepare(self, envelopes: Sequence[int], shares: int, total_fen: int) -> None:
        """Empty the tables and write new envelopes; the planner has statistics of them afterwards."""
        await self._connection.execute("TRUNCATE baseline.envelope, baseline.claim")
        await self._connection.execute(_FILL, list(envelopes), total_fen, shares)
        await self._connection.execute("ANALYZE baseline.envelope")

    async def left_in_rows_fen(self) -> int:
        """Return what the rows of envelopes say is left."""
        return int(await self._connection.fetchval("SELECT coalesce(sum(left_fen), 0)::bigint FROM baseline.envelope"))

    async def check(self, wins: Sequence[Win], left_fen: int) -> Money:
        """Compare answers and money left with what is stored; call it after `Baseline.settle`."""
        row = await self._connection.fetchrow(_SUMS)
        told_fen = sum(amount for _, _, amount in wins)
        off_fen = abs(row["paid_in_fen"] - row["claimed_fen"] - left_fen) + abs(told_fen - row["claimed_fen"])
        lost = 0 if row["claims"] == len(wins) and not off_fen else await self.lost(wins)
        return Money(len(wins), row["claims"], lost, row["oversold"], off_fen)

    async def balance(self, left_fen: int) -> Money:
        """Compare money left with what is stored, where the answers were not recorded (Redis' own client)."""
        row = await self._connection.fetchrow(_SUMS)
        off_fen = abs(row["paid_in_fen"] - row["claimed_fen"] - left_fen)
        return Money(row["claims"], row["claims"], 0, row["oversold"], off_fen)

    async def lost(self, wins: Sequence[Win]) -> int:
        """Count the answers that are not in Postgres, one by one."""
        rows = await self._connection.fetch("SELECT envelope_id, user_id, amount_fen FROM baseline.claim")
        return len(set(wins) - {tuple(row) for row in rows})

    async def close(self) -> None:
        """Close the connection."""
        await self._connection.close(timeout=5.0)
