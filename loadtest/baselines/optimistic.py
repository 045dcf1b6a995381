"""Optimistic lock: read the version, then take a share only if the version is still the same."""

from collections.abc import Sequence
from typing import Any

import asyncpg

from loadtest.baselines.baseline import Gone, Refusal, draw
from loadtest.baselines.books import Books
from loadtest.baselines.pool import Pool
from runtime.postgres import is_lost

_READ = "SELECT left_count, left_fen, version FROM baseline.envelope WHERE envelope_id = $1"
_TAKE = """
UPDATE baseline.envelope SET left_count = left_count - 1, left_fen = left_fen - $2, version = version + 1
WHERE envelope_id = $1 AND version = $3
"""
_CLAIM = "INSERT INTO baseline.claim (envelope_id, user_id, amount_fen) VALUES ($1, $2, $3)"
_TAKEN = "UPDATE 1"


class Optimistic:
    """Five round trips and one fsync a claim, three a conflict. `again`: a conflict is tried again until it is none.

    The update comes before the insert, so that a loser has written nothing when it is refused.
    """

    def __init__(self, books: Books, pool: Pool, *, again: bool) -> None:
        self._books = books
        self.pool = pool
        self._again = again

    async def prepare(self, envelopes: Sequence[int], shares: int, total_fen: int) -> None:
        """Make envelopes, all of them unopened."""
        await self._books.prepare(envelopes, shares, total_fen)

    async def open(self, envelope: int, user: str) -> int | Refusal:
        """Open one share, or return CONFLICT where another caller was first and `again` is off."""
        while True:
            connection = await self.pool.take()
            try:
                answer = await self._try(connection, envelope, user)
            except Exception as error:
                if is_lost(error):
                    raise Gone from error
                raise
            finally:
                # Between two tries another caller may use the connection.
                self.pool.give(connection)
            if answer is not Refusal.CONFLICT or not self._again:
                return answer

    async def _try(self, connection: Any, envelope: int, user: str) -> int | Refusal:
        row = await connection.fetchrow(_READ, envelope)
        if row is None or not row[0]:
            return Refusal.SOLD_OUT
        amount = draw(row[1], row[0])
        await connection.execute("BEGIN")
        if await connection.execute(_TAKE, envelope, amount, row[2]) != _TAKEN:
            await connection.execute("ROLLBACK")
            return Refusal.CONFLICT
        try:
            await connection.execute(_CLAIM, envelope, user, amount)
        except asyncpg.UniqueViolationError:
            await connection.execute("ROLLBACK")
            return Refusal.ALREADY
        await connection.execute("COMMIT")
        return amount

    async def settle(self) -> None:
        """Nothing to do: an answer is sent after its commit."""

    async def left_fen(self) -> int:
        """Return what the rows of envelopes hold."""
        return await self._books.left_in_rows_fen()

    async def kill(self) -> None:
        """Cut the connections."""
        self.pool.cut()

    async def close(self) -> None:
        """Close the connections."""
        await self.pool.close()
