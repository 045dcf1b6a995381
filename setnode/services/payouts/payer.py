"""The payer: workers that send payout orders to the wallet (why it is safe: the package)."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from itertools import chain

from errors import HongbaoError, Unavailable
from runtime import logs, postgres
from setnode.limits import PAY_AWAY_S, PAY_GATHER_S, PAY_HELPERS, PAY_WORKERS
from setnode.services.payouts.payout_backlog import PayoutBacklog
from setnode.services.payouts.payout_batch import PayoutBatch
from setnode.services.payouts.payout_queues import PayoutQueue
from setnode.traces import Traces
from wire.messages import PayKind, PayResult, PayStatus
from wire.wallet import AWAY, OF_THE_WALLET, Order, WalletClient

_NOT_TRACED = contextlib.nullcontext()
_log = logs.get("setnode")


class Payer:
    """Pays what is in the backlog of one server.

    While `closed` says so it pays refunds only: shares that were won are left in Postgres until it is open again.
    """

    def __init__(
        self,
        wallet: WalletClient,
        backlog: PayoutBacklog,
        closed: Callable[[], bool] = lambda: False,
        traces: Traces | None = None,
    ) -> None:
        self._wallet = wallet
        self._backlog = backlog
        self._closed = closed
        self._traces = traces
        self._wallet_answers = asyncio.Event()
        """Cleared when the wallet does not answer, set by the first call that it answers."""

    async def run(self) -> None:
        """Pay until cancelled. Retries have a worker of their own, so a slow wallet does not hold up new batches."""
        new, retries = self._backlog.new, self._backlog.retries
        async with asyncio.TaskGroup() as tasks:
            for _ in range(PAY_WORKERS):
                tasks.create_task(self._work(new, new.nonempty))
            for _ in range(PAY_HELPERS):
                tasks.create_task(self._work(new, new.full))
            tasks.create_task(self._work(retries, retries.nonempty))

    async def _work(self, queue: PayoutQueue, signal: asyncio.Event) -> None:
        failures, paid_at = 0, 0.0
        while True:
            await signal.wait()
            if not signal.is_set():
                continue  # the event wakes all workers, and another one has taken the batches
            if not queue.full.is_set() and time.monotonic() - paid_at < PAY_GATHER_S:
                await asyncio.sleep(PAY_GATHER_S)
            batches = queue.take()
            paid_at = time.monotonic()
            if batches and (error := await self._pay_or_release(batches, queue)):
                failures += 1
                await self._pause(failures, error)
                continue
            failures = 0
            try:
                await self._backlog.finisher.finish()
            except Exception as error:  # noqa: BLE001 - the rows stay; the next call deletes them
                _log.warning("finished payouts could not be deleted yet", error=f"{type(error).__name__}: {error}")
                await postgres.pause(3)  # as after a third failure

    async def _pay_or_release(self, batches: Sequence[PayoutBatch], queue: PayoutQueue) -> HongbaoError | None:
        """Pay the batches; after an unexpected exception leave them to Postgres, and go on with others."""
        try:
            return await self._pay(batches, queue)
        except Exception as error:  # noqa: BLE001 - a fault in one batch must not end the payer
            _log.error("paying failed; its batches are read back", orders=sum(map(len, batches)), exc_info=error)
            self._backlog.leave_to_postgres(batches)
            return Unavailable("internal_error", "paying failed")

    async def _pause(self, failures: int, error: HongbaoError) -> None:
        """Wait before the next call. If the wallet did not answer, any worker's answered call ends the wait.

        Otherwise the backlog would wait for up to PAY_AWAY_S after the wallet is back. A worker that was answered with
        an error waits its own time: other workers' success says nothing about its next call.
        """
        pause_s = postgres.backoff_s(failures, most_s=PAY_AWAY_S)
        if error.code not in AWAY:
            await asyncio.sleep(pause_s)
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause_s):
                await self._wallet_answers.wait()

    async def _pay(self, batches: Sequence[PayoutBatch], queue: PayoutQueue) -> HongbaoError | None:
        """Send the orders in one call. Returns an error if the call as a whole failed, which counts as no attempt."""
        batches = self._backlog.drop_moved(batches)
        if not batches:
            return None
        if self._closed():
            return await self._pay_refunds(batches, queue)
        orders = list(chain.from_iterable(batch.orders for batch in batches))
        try:
            with self._traced(batches, len(orders)):
                results = await self._wallet.pay(orders)
        except HongbaoError as error:
            if error.code not in OF_THE_WALLET:
                return await self._pay_apart(batches, error, queue)
            return self._wallet_failed(batches, error, queue)
        self._wallet_answers.set()
        at = 0
        for batch in batches:
            size = len(batch)
            self._backlog.settle(batch, results[at : at + size])
            at += size
        return None

    def _traced(self, batches: Sequence[PayoutBatch], orders: int) -> contextlib.AbstractContextManager[None]:
        """Return what traces the call that pays the batches; nothing for almost all of them."""
        if self._traces is None:
            return _NOT_TRACED
        for batch in batches:  # without a list or a generator, which an open that pays alone would notice
            if batch.traced:
                return self._traces.payout([one for some in batches for one in some.traced], orders)
        return _NOT_TRACED

    async def _pay_refunds(self, batches: Sequence[PayoutBatch], queue: PayoutQueue) -> HongbaoError | None:
        """Pay what goes back to senders, and leave the batches to Postgres: they are paid whole later.

        A refund that is paid twice under its order number moves money once. One without an outcome is sent again soon.
        """
        orders = [order for batch in batches for order in batch.orders if order.kind == PayKind.REFUND]
        results: list[PayResult] = []
        if orders:
            try:
                results = await self._wallet.pay(orders)
            except HongbaoError as error:
                if error.code in OF_THE_WALLET:
                    return self._wallet_failed(batches, error, queue)
                results = await self._results_apart(orders, error)
        if any(result.status is PayStatus.UNKNOWN for result in results):
            return self._wallet_failed(batches, Unavailable("outcome_unknown", "a refund has no outcome yet"), queue)
        self._wallet_answers.set()
        self._backlog.set_aside(batches)
        return None

    def _wallet_failed(self, batches: Sequence[PayoutBatch], error: HongbaoError, queue: PayoutQueue) -> HongbaoError:
        """Keep the batches for the next call; it costs no order an attempt."""
        _log.warning("wallet away", error=error.detail, orders=sum(map(len, batches)))
        queue.put_back(batches)
        if error.code in AWAY:
            self._wallet_answers.clear()
        return error

    async def _pay_apart(
        self, batches: Sequence[PayoutBatch], error: HongbaoError, queue: PayoutQueue
    ) -> HongbaoError | None:
        """Send each batch in a call of its own, and one that still fails in halves: so the fault finds its order.

        An order that fails alone counts as UNKNOWN.
        """
        if len(batches) > 1:
            errors = [await self._pay([batch], queue) for batch in batches]
            return next(filter(None, errors), None)
        (batch,) = batches
        _log.error(
            "the wallet cannot read a batch of orders; they are sent apart", error=error.detail, orders=len(batch)
        )
        try:
            results = await self._results_apart(batch.orders, error)
        except HongbaoError as failed:
            return self._wallet_failed(batches, failed, queue)
        self._backlog.settle(batch, results)
        return None

    async def _results_apart(self, orders: Sequence[Order], error: HongbaoError) -> list[PayResult]:
        """Return the results of orders whose call ended with `error`. Raises what says something about the wallet.

        Orders that were paid before it raises are found paid by the repeat.
        """
        if len(orders) == 1:
            return [PayResult(PayStatus.UNKNOWN, error.detail)]
        results: list[PayResult] = []
        middle = len(orders) // 2
        for half in (orders[:middle], orders[middle:]):
            try:
                results += await self._wallet.pay(half)
            except HongbaoError as again:
                if again.code in OF_THE_WALLET:
                    raise
                results += await self._results_apart(half, again)
        return results
