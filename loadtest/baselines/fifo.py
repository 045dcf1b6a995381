"""FIFO actor, one transaction per claim: the queue in front of each envelope replaces the row lock.

What a serialised queue in front of a database does: opens wait in memory and not inside Postgres, memory decides who
gets a share, and a claim is one INSERT that commits by itself.
"""

import asyncio
from collections.abc import Sequence

from loadtest.baselines.baseline import Gone, Refusal
from loadtest.baselines.books import Books
from loadtest.baselines.pool import Pool
from loadtest.baselines.stock import Stock, stocks
from runtime.postgres import is_lost

_CLAIM = "INSERT INTO baseline.claim (envelope_id, user_id, amount_fen) VALUES ($1, $2, $3)"


class Fifo:
    """One round trip and one fsync a claim; at one envelope one after the other, at many in parallel."""

    def __init__(self, books: Books, pool: Pool) -> None:
        self._books = books
        self.pool = pool
        self._stocks: dict[int, tuple[asyncio.Lock, Stock]] = {}

    async def prepare(self, envelopes: Sequence[int], shares: int, total_fen: int) -> None:
        """Make envelopes, all of them unopened."""
        await self._books.prepare(envelopes, shares, total_fen)
        self._stocks = {one: (asyncio.Lock(), stock) for one, stock in stocks(envelopes, shares, total_fen).items()}

    async def open(self, envelope: int, user: str) -> int | Refusal:
        """Open one share once all earlier opens of the envelope have been answered."""
        turn, stock = self._stocks[envelope]
        # asyncio's lock is first come, first served.
        async with turn:
            connection = await self.pool.take()
            try:
                amount = stock.take(user)
                if not isinstance(amount, Refusal):
                    await connection.execute(_CLAIM, envelope, user, amount)
                return amount
            except Exception as error:
                if is_lost(error):
                    raise Gone from error
                raise
            finally:
                self.pool.give(connection)

    async def settle(self) -> None:
        """Nothing to do: an answer is sent after its commit."""

    async def left_fen(self) -> int:
        """Return the sum of the stocks in memory."""
        return sum(stock.left_fen for _, stock in self._stocks.values())

    async def kill(self) -> None:
        """Cut the connections."""
        self.pool.cut()

    async def close(self) -> None:
        """Close the connections."""
        await self.pool.close()
