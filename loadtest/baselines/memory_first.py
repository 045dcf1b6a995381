"""Memory first, the database behind: opens are answered from memory, a writer brings the claims to Postgres later.

As fast as memory and as durable as memory: answers whose claims are not yet written are lost with the process.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any

from loadtest.baselines.baseline import Gone, Refusal
from loadtest.baselines.books import Books, Win
from loadtest.baselines.stock import Stock, stocks
from runtime import postgres

BATCH = 5_000
COLUMNS = ("envelope_id", "user_id", "amount_fen")


class MemoryFirst:
    """An open is two look-ups and one turn of the loop; a claim reaches Postgres in a COPY of up to `BATCH`."""

    def __init__(self, books: Books, connection: Any) -> None:
        self._books = books
        self._connection = connection
        self._stocks: dict[int, Stock] = {}
        self._owed: deque[Win] = deque()
        self._wanted = asyncio.Event()
        self._settled = asyncio.Event()
        self._settled.set()
        self._dead = False
        self._writer = asyncio.ensure_future(self._write())

    @classmethod
    async def start(cls, books: Books, dsn: str) -> "MemoryFirst":
        """Connect the writer."""
        return cls(books, await postgres.connect(dsn))

    async def prepare(self, envelopes: Sequence[int], shares: int, total_fen: int) -> None:
        """Make envelopes, all of them unopened."""
        await self.settle()
        await self._books.prepare(envelopes, shares, total_fen)
        self._stocks = stocks(envelopes, shares, total_fen)

    async def open(self, envelope: int, user: str) -> int | Refusal:
        """Open one share in memory."""
        # A request arrives in one turn of the loop and is answered in another; without a turn no other task would run.
        await asyncio.sleep(0)
        if self._dead:
            raise Gone
        amount = self._stocks[envelope].take(user)
        if not isinstance(amount, Refusal):
            self._owed.append((envelope, user, amount))
            self._settled.clear()
            self._wanted.set()
        return amount

    async def _write(self) -> None:
        while True:
            await self._wanted.wait()
            batch = [self._owed.popleft() for _ in range(min(BATCH, len(self._owed)))]
            await self._connection.copy_records_to_table(
                "claim", schema_name="baseline", records=batch, columns=COLUMNS
            )
            if not self._owed:
                self._wanted.clear()
                self._settled.set()

    async def settle(self) -> None:
        """Wait for the writer; after `kill` there is nothing left to write."""
        if self._dead:
            return
        waiting = asyncio.ensure_future(self._settled.wait())
        try:
            await asyncio.wait({waiting, self._writer}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        if self._writer.done():
            self._writer.result()

    async def left_fen(self) -> int:
        """Return the sum of the stocks in memory."""
        return sum(stock.left_fen for stock in self._stocks.values())

    async def kill(self) -> None:
        """Drop memory and the writer's connection."""
        self._dead = True
        self._owed.clear()
        # The connection first: cancelling the writer would let asyncpg complete its COPY.
        self._connection.terminate()
        await self._stop()

    async def close(self) -> None:
        """Stop the writer."""
        await self._stop()
        if not self._connection.is_closed():
            await self._connection.close(timeout=5.0)

    async def _stop(self) -> None:
        self._writer.cancel()
        await asyncio.wait({self._writer})
