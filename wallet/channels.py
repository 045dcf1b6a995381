"""Payout channels: how money leaves escrow, into the user's account here or through an outside provider."""

from collections.abc import Sequence
from typing import Protocol

from wallet.batcher import Batcher
from wallet.requests import PayOrder, PayRequest
from wire.messages import PayResult


class Channel(Protocol):
    """Pays orders, each order number at most once, however often it is called and in however many processes."""

    async def pay(self, orders: Sequence[PayOrder]) -> Sequence[PayResult]:
        """Return one result per order, in order; a PAID one is durable in the ledger.

        Raises Unavailable if the outcome of the whole list is unknown or nothing was done; repeating it is safe.
        """


class LedgerChannel:
    """Pays within the ledger: escrow → user."""

    def __init__(self, batcher: Batcher) -> None:
        self._batcher = batcher

    async def pay(self, orders: Sequence[PayOrder]) -> Sequence[PayResult]:
        """Post all orders in one batch."""
        if not orders:
            return []
        results: Sequence[PayResult] = await self._batcher.submit(PayRequest(orders))
        return results
