"""How a payout leaves escrow: into the user's account here, or through a provider outside."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from wallet.batcher import Batcher
from wallet.requests import PayOrder, PayRequest
from wire.messages import Pay


class Result(NamedTuple):
    """What became of one order. REFUSED is final and has a reason; UNKNOWN is to be repeated under the same number."""

    status: int
    reason: str | None = None


PAID = Result(Pay.PAID)


class Channel(Protocol):
    """Pays orders, each at most once per order number, however often and from wherever it is asked."""

    async def pay(self, orders: Sequence[PayOrder]) -> Sequence[tuple[int, str | None]]:
        """Return one (status, reason) per order, in order; what is PAID is durable in the ledger.

        Raises Unavailable when nothing is known of the whole list; repeating it is safe.
        """


class LedgerChannel:
    """Credits the user's account in the same ledger: escrow → user."""

    def __init__(self, batcher: Batcher) -> None:
        self._batcher = batcher

    async def pay(self, orders: Sequence[PayOrder]) -> Sequence[tuple[int, str | None]]:
        """Book all orders in one batch."""
        if not orders:
            return []
        results: Sequence[tuple[int, str | None]] = await self._batcher.submit(PayRequest(orders))
        return results
