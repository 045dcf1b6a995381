"""Payouts through the outside provider: pay there first, then post escrow → channel:provider.

The steps, and why a crash between any two of them is safe:
1. Look the order up in the ledger: posted already, or in conflict? A repeat ends here.
2. The escrow, and what is left of the envelope's fund, must hold the money, else nothing is ordered outside. (Both are
   read, before step 1, and not locked: see step 4.)
3. The provider: look up, then order (`wallet.provider`). After a crash the repeat finds the payment by looking it up.
4. Post it in the ledger under the same number; UNIQUE lets only one posting in, whichever process repeats. If the
   ledger refuses a payment that was made outside, the result is UNKNOWN `paid_outside_not_booked`, counted and logged.
"""

import asyncio
from collections.abc import Sequence

from runtime import logs, sql
from wallet import metrics
from wallet.batcher import BROKEN, Batcher
from wallet.channels import LedgerChannel
from wallet.decide import CONFLICT, OVERPAID, SHORT
from wallet.limits import PROVIDER_AT_ONCE, PROVIDER_WAIT_S
from wallet.postings import PROVIDER
from wallet.provider import Provider
from wallet.readers import Readers
from wallet.requests import PayOrder, PayRequest
from wire.messages import PayKind, PayResult, PayStatus
from wire.orders import escrow_account

_BALANCES = sql.read("wallet", "balances")
_FUNDS_LEFT = sql.read("wallet", "funds_left")
_KNOWN_ORDERS = sql.read("wallet", "known_orders")

_log = logs.get("wallet")
_IN_PROGRESS = PayResult(PayStatus.UNKNOWN, "in_hand")


class ProviderChannel:
    """Pays claims through the provider, refunds within the ledger (the money came from the sender's account there)."""

    def __init__(self, batcher: Batcher, readers: Readers, provider: Provider) -> None:
        self._batcher = batcher
        self._readers = readers
        self._provider = provider
        self._ledger = LedgerChannel(batcher)
        self._in_progress: set[str] = set()
        self._slots = asyncio.Semaphore(PROVIDER_AT_ONCE)

    async def pay(self, orders: Sequence[PayOrder]) -> Sequence[PayResult]:
        """Pay claims outside and refunds inside; one result per order, in order."""
        claims = [order for order in orders if order.kind == PayKind.CLAIM]
        refunds = [order for order in orders if order.kind != PayKind.CLAIM]
        paid_in, paid_out = await asyncio.gather(self._ledger.pay(refunds), self._pay_claims(claims))
        refunded, claimed = iter(paid_in), iter(paid_out)
        return [next(claimed) if order.kind == PayKind.CLAIM else next(refunded) for order in orders]

    async def _pay_claims(self, claims: Sequence[PayOrder]) -> Sequence[PayResult]:
        if not claims:
            return []
        decided = await self._decided(claims)
        # If an order number is in this list twice, or in another PAY at the same time, only one is paid outside.
        mine = [order for order in claims if order.order_no not in decided and self._take(order.order_no)]
        try:
            settled = await asyncio.gather(*(self._pay_outside(order) for order in mine))
            results = dict(zip([order.order_no for order in mine], settled, strict=True))
            await self._post([order for order in mine if results[order.order_no].status == PayStatus.PAID], results)
        finally:
            self._in_progress.difference_update(order.order_no for order in mine)
        asked = {order.order_no: order for order in mine}
        return [decided.get(order.order_no) or _result(order, asked, results) for order in claims]

    def _take(self, order_no: str) -> bool:
        if order_no in self._in_progress:
            return False
        self._in_progress.add(order_no)
        return True

    async def _decided(self, claims: Sequence[PayOrder]) -> dict[str, PayResult]:
        """Return the results of orders that need no provider: posted, in conflict, or without money in escrow."""
        escrows = {escrow_account(order.envelope_id) for order in claims}
        left: dict[str, int] = dict(await self._readers.fetch(_BALANCES, list(escrows)))
        envelopes = {order.envelope_id for order in claims}
        funds: dict[int, int] = dict(await self._readers.fetch(_FUNDS_LEFT, list(envelopes)))
        # Last: an order that is not booked now was not subtracted from what was left before. The other way round, one
        # that another PAY books in between would be refused for want of the money that it has itself taken.
        rows = await self._readers.fetch(_KNOWN_ORDERS, [order.order_no for order in claims])
        booked = {row["order_no"]: row for row in rows}
        decided: dict[str, PayResult] = {}
        again = [order for order in claims if order.order_no in booked]
        if again:
            # Through the batcher, so that a replayed PAID is as durable as a first one (queries/emit_wal.sql).
            results = await self._batcher.submit(PayRequest(again, through=PROVIDER))
            decided.update(zip([order.order_no for order in again], results, strict=True))
        for order in claims:
            if order.order_no in decided:
                continue
            escrow = escrow_account(order.envelope_id)
            left[escrow] = left.get(escrow, 0) - order.amount_fen
            funds[order.envelope_id] = funds.get(order.envelope_id, 0) - order.amount_fen
            if funds[order.envelope_id] < 0:
                metrics.broken.labels("fund_exceeded").inc()
                _log.error(BROKEN["fund_exceeded"], check="fund_exceeded", order_nos=[order.order_no])
                decided[order.order_no] = OVERPAID
            elif left[escrow] < 0:
                metrics.broken.labels("escrow_short").inc()
                _log.error(BROKEN["escrow_short"], check="escrow_short", order_nos=[order.order_no], escrow=escrow)
                decided[order.order_no] = SHORT
        return decided

    async def _pay_outside(self, order: PayOrder) -> PayResult:
        try:
            async with asyncio.timeout(PROVIDER_WAIT_S):
                await self._slots.acquire()
        except TimeoutError:
            return PayResult(PayStatus.UNKNOWN, "provider_busy")
        try:
            return await self._provider.pay(order)
        except Exception:  # noqa: BLE001 - the others of this PAY are paid, and must be booked
            _log.exception("payment outside failed unexpectedly", order_no=order.order_no)
            return PayResult(PayStatus.UNKNOWN, "provider_in_doubt")
        finally:
            self._slots.release()

    async def _post(self, paid: Sequence[PayOrder], results: dict[str, PayResult]) -> None:
        if not paid:
            return
        for order, (status, reason) in zip(
            paid, await self._batcher.submit(PayRequest(paid, through=PROVIDER)), strict=True
        ):
            if status == PayStatus.PAID:
                continue
            # Not REFUSED, which is final and means that the user has no money: the provider has paid it.
            metrics.broken.labels("paid_outside_not_booked").inc()
            _log.error("paid outside, cannot be posted", order_no=order.order_no, reason=reason)
            results[order.order_no] = PayResult(PayStatus.UNKNOWN, "paid_outside_not_booked")


def _result(order: PayOrder, asked: dict[str, PayOrder], results: dict[str, PayResult]) -> PayResult:
    first = asked.get(order.order_no)
    if first is None:
        return _IN_PROGRESS
    return results[order.order_no] if first == order else CONFLICT
