"""Payouts through the provider outside: pay there first, then book escrow → channel:provider, exactly once each.

The order of steps, and why a crash between any two of them is safe:
1. the ledger: is the order booked already, or a conflict? A repeat ends here.
2. the escrow must hold the money, or nothing is ordered outside.
3. the provider: ask, then order (`wallet.provider`). After a crash the repeat finds the payment by asking.
4. the ledger books it under the same number; UNIQUE makes that once, whoever repeats.
"""

import asyncio
from collections.abc import Sequence

from runtime import logs
from wallet import measures
from wallet.batcher import Batcher
from wallet.channels import LedgerChannel, Result
from wallet.limits import PROVIDER_AT_ONCE, PROVIDER_WAIT_S
from wallet.postings import PROVIDER
from wallet.provider import Provider
from wallet.readers import Readers
from wallet.requests import PayOrder, PayRequest
from wallet.sql import SQL
from wire.messages import Pay, PayKind
from wire.orders import escrow_account

_log = logs.get("wallet")
_CONFLICT = Result(Pay.REFUSED, "order_conflict")
_SHORT = Result(Pay.REFUSED, "escrow_short")
_IN_HAND = Result(Pay.UNKNOWN, "in_hand")


class ProviderChannel:
    """Pays claims outside. Refunds go back where the money came from: the sender's account in the ledger."""

    def __init__(self, batcher: Batcher, readers: Readers, provider: Provider) -> None:
        self._batcher = batcher
        self._readers = readers
        self._provider = provider
        self._ledger = LedgerChannel(batcher)
        self._in_hand: set[str] = set()
        self._gate = asyncio.Semaphore(PROVIDER_AT_ONCE)

    async def pay(self, orders: Sequence[PayOrder]) -> Sequence[tuple[int, str | None]]:
        """Settle claims outside and refunds inside; one (status, reason) per order."""
        claims = [order for order in orders if order.kind == PayKind.CLAIM]
        refunds = [order for order in orders if order.kind != PayKind.CLAIM]
        paid_in, paid_out = await asyncio.gather(self._ledger.pay(refunds), self._pay_claims(claims))
        refunded, claimed = iter(paid_in), iter(paid_out)
        return [next(claimed) if order.kind == PayKind.CLAIM else next(refunded) for order in orders]

    async def _pay_claims(self, claims: Sequence[PayOrder]) -> Sequence[tuple[int, str | None]]:
        if not claims:
            return []
        decided = await self._decided(claims)
        # One number twice in a list, or in two lists at once, is ordered by one of them only.
        mine = [order for order in claims if order.order_no not in decided and self._take(order.order_no)]
        try:
            settled = await asyncio.gather(*(self._settle(order) for order in mine))
            results = dict(zip([order.order_no for order in mine], settled, strict=True))
            await self._book([order for order in mine if results[order.order_no].status == Pay.PAID], results)
        finally:
            self._in_hand.difference_update(order.order_no for order in mine)
        asked = {order.order_no: order for order in mine}
        return [decided.get(order.order_no) or _result(order, asked, results) for order in claims]

    def _take(self, order_no: str) -> bool:
        if order_no in self._in_hand:
            return False
        self._in_hand.add(order_no)
        return True

    async def _decided(self, claims: Sequence[PayOrder]) -> dict[str, tuple[int, str | None]]:
        """Return the orders that need no provider: booked, in conflict, or without money in escrow."""
        rows = await self._readers.fetch(SQL["known_orders"], [order.order_no for order in claims])
        booked = {row["order_no"]: row for row in rows}
        escrows = {escrow_account(order.envelope_id) for order in claims}
        left: dict[str, int] = dict(await self._readers.fetch(SQL["balances"], list(escrows)))
        decided: dict[str, tuple[int, str | None]] = {}
        again = [order for order in claims if order.order_no in booked]
        if again:
            # Through the batcher, so that a replayed PAID is as durable as a first one (see queries/mark.sql).
            results = await self._batcher.submit(PayRequest(again, through=PROVIDER))
            decided.update(zip([order.order_no for order in again], results, strict=True))
        for order in claims:
            if order.order_no in decided:
                continue
            escrow = escrow_account(order.envelope_id)
            left[escrow] = left.get(escrow, 0) - order.amount_fen
            if left[escrow] < 0:
                measures.broken.labels("escrow_short").inc()
                _log.error("escrow cannot pay a claim", order_no=order.order_no, escrow=escrow)
                decided[order.order_no] = _SHORT
        return decided

    async def _settle(self, order: PayOrder) -> Result:
        try:
            async with asyncio.timeout(PROVIDER_WAIT_S):
                await self._gate.acquire()
        except TimeoutError:
            return Result(Pay.UNKNOWN, "provider_busy")
        try:
            return await self._provider.settle(order)
        finally:
            self._gate.release()

    async def _book(self, paid: Sequence[PayOrder], results: dict[str, Result]) -> None:
        if not paid:
            return
        for order, (status, reason) in zip(
            paid, await self._batcher.submit(PayRequest(paid, through=PROVIDER)), strict=True
        ):
            if status == Pay.PAID:
                continue
            # Paid outside, refused inside: never "refused" (it was paid), never silent.
            measures.broken.labels("paid_outside_not_booked").inc()
            _log.error("paid outside, cannot be booked", order_no=order.order_no, reason=reason)
            results[order.order_no] = Result(Pay.UNKNOWN, "paid_outside_not_booked")


def _result(order: PayOrder, asked: dict[str, PayOrder], results: dict[str, Result]) -> Result:
    first = asked.get(order.order_no)
    if first is None:
        return _IN_HAND
    return results[order.order_no] if first == order else _CONFLICT
