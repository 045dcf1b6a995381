"""Pessimistic lock: the envelope's row holds what is left, and an open keeps it locked until its commit."""

from collections.abc import Sequence
from typing import Any

import asyncpg

from loadtest.baselines.baseline import Gone, Refusal, draw
from loadtest.baselines.books import Books
from loadtest.baselines.pool import Pool
from runtime.postgres import is_lost

_LOCK = "SELECT left_count, left_fen FROM baseline.envelope WHERE envelope_id = $1 FOR UPDATE"
_CLAIM = "INSERT INTO baseline.claim (envelope_id, user_id, amount_fen) VALUES ($1, $2, $3)"
_TAKE = "UPDATE baseline.envelope SET left_count = left_count - 1, left_fen = left_fen - $2 WHERE envelope_id = $1"


class Pessimistic:
    """Five round trips and one fsync a claim; at one envelope all of it one after the other."""

    def __init__(self, books: Books, pool: Pool) -> None:
        self._books = books
        self.pool = pool

    async def prepare(self, envelopes: Sequence[int], shares: int, total_fen: int) -> None:
        """Make envelopes, all of them unopened."""
        await self._books.prepare(envelopes, shares, total_fen)

    async def open(self, envelope: int, user: str) -> int | Refusal:
        """Open one share under the lock of its envelope."""
        connection = await self.pool.take()
        try:
            return await self.open_with(connection, envelope, user)
        finally:
            self.pool.give(connection)

    async def open_with(self, connection: Any, envelope: int, user: str) -> int | Refusal:
        """Open one share on a connection that the caller holds."""
        try:
            await connection.execute("BEGIN")
            row = await connection.fetchrow(_LOCK, envelope)
            if row is None or not row[0]:
                await connection.execute("ROLLBACK")
                return Refusal.SOLD_OUT
            amount = draw(row[1], row[0])
            try:
                await connection.execute(_CLAIM, envelope, user, amount)
            except asyncpg.UniqueViolationError:
                await connection.execute("ROLLBACK")
                return Refusal.ALREADY
            await connection.execute(_TAKE, envelope, amount)
            await connection.execute("COMMIT")
        except Exception as error:
            if is_lost(error):
                raise Gone from error
            raise
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
