"""The rivals' tables and the check of their money.

Plain tables, one for envelopes and one for claims, each with the one key that the rivals look up by: their best case.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from runtime import postgres

SCHEMA = """
CREATE SCHEMA IF NOT EXISTS rival;
CREATE TABLE IF NOT EXISTS rival.envelope (
    envelope_id bigint  PRIMARY KEY,
    total_fen   bigint  NOT NULL,
    left_fen    bigint  NOT NULL CHECK (left_fen >= 0),
    shares      integer NOT NULL,
    left_count  integer NOT NULL CHECK (left_count >= 0),
    version     integer NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
CREATE TABLE IF NOT EXISTS rival.claim (
    envelope_id bigint      NOT NULL,
    amount_fen  bigint      NOT NULL,
    claimed_at  timestamptz NOT NULL DEFAULT now(),
    user_id     varchar(40) NOT NULL,
    PRIMARY KEY (envelope_id, user_id)
);
"""
# Half-filled pages: an update of the stock stays on its page and touches no index.

_FILL = """
INSERT INTO rival.envelope (envelope_id, total_fen, left_fen, shares, left_count)
SELECT id, $2, $2, $3, $3 FROM unnest($1::bigint[]) AS id
"""
_SUMS = """
SELECT (SELECT count(*) FROM rival.claim) AS claims,
       (SELECT coalesce(sum(amount_fen), 0)::bigint FROM rival.claim) AS claimed_fen,
       (SELECT coalesce(sum(total_fen), 0)::bigint FROM rival.envelope) AS paid_in_fen,
       (SELECT count(*) FROM (
           SELECT 1 FROM rival.claim c JOIN rival.envelope e USING (envelope_id)
           GROUP BY envelope_id, e.shares, e.total_fen
           HAVING count(*) > e.shares OR sum(c.amount_fen) > e.total_fen OR min(c.amount_fen) < 1) AS over) AS oversold
"""

Win = tuple[int, str, int]
"""Envelope, user, amount in fen: what somebody was told."""


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
    """The rivals' tables in one database, seen by whoever counts."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    @classmethod
    async def make(cls, dsn: str) -> "Books":
        """Make the tables, once."""
        connection = await postgres.connect(dsn)
        await connection.execute(SCHEMA)
        return cls(connection)

    async def prepare(self, envelopes: Sequence[int], shares: int, total_fen: int) -> None:
        """Forget what was and write new envelopes; the planner knows their number afterwards."""
        await self._connection.execute("TRUNCATE rival.envelope, rival.claim")
        await self._connection.execute(_FILL, list(envelopes), total_fen, shares)
        await self._connection.execute("ANALYZE rival.envelope")

    async def left_in_rows_fen(self) -> int:
        """Return what the rows of envelopes say is left."""
        return int(await self._connection.fetchval("SELECT coalesce(sum(left_fen), 0)::bigint FROM rival.envelope"))

    async def check(self, wins: Sequence[Win], left_fen: int) -> Money:
        """Compare what was answered and what is left with what is stored, after all is settled."""
        row = await self._connection.fetchrow(_SUMS)
        told_fen = sum(amount for _, _, amount in wins)
        off_fen = abs(row["paid_in_fen"] - row["claimed_fen"] - left_fen) + abs(told_fen - row["claimed_fen"])
        lost = 0 if row["claims"] == len(wins) and not off_fen else await self.lost(wins)
        return Money(len(wins), row["claims"], lost, row["oversold"], off_fen)

    async def balance(self, left_fen: int) -> Money:
        """Compare what is left with what is stored, where nobody noted who was told what."""
        row = await self._connection.fetchrow(_SUMS)
        off_fen = abs(row["paid_in_fen"] - row["claimed_fen"] - left_fen)
        return Money(row["claims"], row["claims"], 0, row["oversold"], off_fen)

    async def lost(self, wins: Sequence[Win]) -> int:
        """Count the answers that are not in Postgres, one by one."""
        rows = await self._connection.fetch("SELECT envelope_id, user_id, amount_fen FROM rival.claim")
        return len(set(wins) - {tuple(row) for row in rows})

    async def close(self) -> None:
        """Let go of the connection."""
        await self._connection.close(timeout=5.0)
