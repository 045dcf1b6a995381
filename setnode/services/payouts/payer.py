"""The payer: workers that send payout orders to the wallet and record their results (why it is safe: the package)."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from itertools import chain

from errors import HongbaoError, Unavailable
from runtime import logs, metrics, postgres
from runtime.clock import Clock
from setnode.actors.batch import ClaimBatch
from setnode.limits import (
    ADOPT_AFTER_S,
    PAY_ATTEMPTS,
    PAY_AWAY_S,
    PAY_GATHER_S,
    PAY_HELPERS,
    PAY_QUEUE,
    PAY_WORKERS,
    READ_BACK_BATCHES,
    READ_BACK_SPILLED,
    SERVICE_DEADLINE_S,
    STUCK_REASON_CHARS,
)
from setnode.services.payouts.finisher import Finisher
from setnode.services.payouts.intents import Pick, read_intents
from setnode.services.payouts.payout_batch import PayoutBatch, StuckOrder
from setnode.services.payouts.payout_queues import PayoutQueue, RetryQueue
from wire.messages import PAID, PayResult, PayStatus
from wire.wallet import WALLET_UNAVAILABLE, Order, WalletClient

AWAY = frozenset({WALLET_UNAVAILABLE, "outcome_unknown"})
"""Codes of a wallet that does not answer."""
_OF_THE_WALLET = AWAY | {"busy", "database_unavailable", "stopping"}
"""Errors that say something about the wallet, whatever it was asked. Any other may come from a single order: a call
that ends so is repeated in halves, until that order is alone."""

_log = logs.get("setnode")
_paid = metrics.counter("hongbao_payouts_total", "Orders by result", ("result",))
_lag = metrics.seconds("hongbao_payout_lag_seconds", "From the commit of a claim to its credit")


class Payer:
    """Pays the batches of one server; `committed` is called after every commit of claims.

    `holds` says whether an envelope is on this SET. Orders of envelopes that have moved are dropped: the move has
    copied their intents to the other SET.
    """

    def __init__(
        self,
        wallet: WalletClient,
        session: postgres.Session,
        clock: Clock,
        server: str,
        holds: Callable[[int], bool] = lambda _: True,
    ) -> None:
        self._wallet = wallet
        self._session = session
        self._clock = clock
        self._server = server
        self._holds = holds
        self._new = PayoutQueue()
        self._retries = RetryQueue()
        self._held: set[int] = set()
        self.unpaid_fen = 0
        """In the batches held in memory, claimed and not credited yet."""
        self.stuck_fen = 0
        """Claimed in this SET and stuck for an operator, at the last `read_back`."""
        # Waking the workers lets one of them write what is finished.
        self._finisher = Finisher(session, clock, holds, self._new.nonempty.set, self._on_deleted)
        self._wallet_answers = asyncio.Event()
        """Cleared when the wallet does not answer, set by the first call that it answers."""
        self._overflow = True
        """Whether Postgres may hold batches of this server that memory does not: at start those of an earlier life."""

    @property
    def held(self) -> int:
        """Batches in memory that are not finished."""
        return len(self._held)

    @property
    def _free(self) -> int:
        """How many more new batches fit into memory."""
        return PAY_QUEUE - (len(self._held) - len(self._retries))

    def committed(self, batch_id: int, batch: ClaimBatch, refused: frozenset[int]) -> None:
        """Take a batch that has just become durable; `refused` are envelopes of which nothing was written.

        While memory is full the batch is left to `read_back`.
        """
        if self._free <= 0:
            self._overflow = True
            return
        rows, receivers = batch.claims, batch.receivers
        if refused:
            written = [one for one in zip(rows, receivers, strict=True) if one[0][0] not in refused]
            rows, receivers = [row for row, _ in written], [receiver for _, receiver in written]
        payout_batch = PayoutBatch(batch_id, rows, receivers, time.monotonic())
        self._hold(payout_batch)
        self._new.put(payout_batch)

    async def run(self) -> None:
        """Pay until cancelled. Retries have a worker of their own, so a slow wallet does not hold up new batches."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(PAY_WORKERS):
                tasks.create_task(self._work(self._new, self._new.nonempty))
            for _ in range(PAY_HELPERS):
                tasks.create_task(self._work(self._new, self._new.full))
            tasks.create_task(self._work(self._retries, self._retries.nonempty))

    async def read_back(self) -> int:
        """Read batches from Postgres that memory does not hold; returns how many were taken in.

        They are this server's own after an overflow or a start, batches that another server has left for ADOPT_AFTER_S,
        and spilled batches whose time of retry has come.
        """
        limit = max(0, min(self._free, READ_BACK_BATCHES))
        again = self._retries.due(READ_BACK_SPILLED)
        if not limit and not again:
            return 0
        left_before = self._clock.now() - timedelta(seconds=ADOPT_AFTER_S)
        # Cleared before the first await, so that a batch that overflows meanwhile sets it again.
        own, self._overflow = self._overflow, False
        try:
            async with self._finisher.turn:
                pick = Pick(self._server, left_before, [*self._held, *self._retries.spilled], limit, own)
                found = await self._session.run(
                    lambda connection: read_intents(connection, pick, again), SERVICE_DEADLINE_S
                )
        except BaseException:
            self._overflow = True
            raise
        self.stuck_fen = found.stuck_fen
        self._overflow |= found.picked >= limit
        since = time.monotonic()
        taken = {
            batch_id: PayoutBatch(batch_id, *claims, since)
            for batch_id, claims in found.claims.items()
            if batch_id not in self._held
        }
        for batch_id, batch in taken.items():
            self._hold(batch)
            if batch_id not in again:
                self._new.put(batch)
        for batch_id in again:
            self._retries.restore(batch_id, taken.get(batch_id))
        return len(taken)

    def _hold(self, batch: PayoutBatch) -> None:
        self._held.add(batch.batch_id)
        self.unpaid_fen += batch.fen

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
                await self._finisher.finish()
            except Exception as error:  # noqa: BLE001 - the rows stay; the next call deletes them
                _log.warning("finished payouts could not be deleted yet", error=f"{type(error).__name__}: {error}")
                await postgres.pause(3)  # as after a third failure

    async def _pay_or_release(self, batches: Sequence[PayoutBatch], queue: PayoutQueue) -> HongbaoError | None:
        """Pay the batches; after an unexpected exception leave them to `read_back`, and go on with others."""
        try:
            return await self._pay(batches, queue)
        except Exception as error:  # noqa: BLE001 - a fault in one batch must not end the payer
            _log.error("paying failed; its batches are read back", orders=sum(map(len, batches)), exc_info=error)
            for batch in batches:
                self._retries.forget(batch)
                if batch.batch_id in self._held and batch not in self._finisher:
                    self._held.discard(batch.batch_id)
                    self.unpaid_fen -= batch.fen
            self._overflow = True
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
        batches = self._drop_moved(batches)
        if not batches:
            return None
        orders = list(chain.from_iterable(batch.orders for batch in batches))
        try:
            results = await self._wallet.pay(orders)
        except HongbaoError as error:
            if error.code not in _OF_THE_WALLET:
                return await self._pay_apart(batches, error, queue)
            return self._wallet_failed(batches, error, queue)
        self._wallet_answers.set()
        at = 0
        for batch in batches:
            size = len(batch)
            self._apply_results(batch, results[at : at + size])
            at += size
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
        self._apply_results(batch, results)
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
                if again.code in _OF_THE_WALLET:
                    raise
                results += await self._results_apart(half, again)
        return results

    def _drop_moved(self, batches: Sequence[PayoutBatch]) -> list[PayoutBatch]:
        """Drop the orders of envelopes that have left this SET; returns the batches that have orders left."""
        holds, left = self._holds, []
        for batch in batches:
            if all(map(holds, batch.envelopes)):
                left.append(batch)
                continue
            before = batch.fen
            batch.keep(one for one in batch.orders_with_seqs() if holds(one[0].envelope_id))
            self.unpaid_fen -= before - batch.fen
            if len(batch):
                left.append(batch)
            else:
                self._on_final(batch)
        return left

    def _apply_results(self, batch: PayoutBatch, results: Sequence[PayResult]) -> None:
        """Record the results; orders without a final one are kept for a retry under the same order numbers."""
        paid, left = results.count(PAID), self._not_final(batch, results)
        _paid.labels("paid").inc(paid)
        if paid:
            _lag.observe(time.monotonic() - batch.since)
        if not left:
            self._on_final(batch)
            return
        batch.keep(left)
        batch.attempts += 1
        _paid.labels("unknown").inc(len(left))
        if not self._retries.keep(batch):
            self._held.discard(batch.batch_id)
            self.unpaid_fen -= batch.fen

    def _not_final(self, batch: PayoutBatch, results: Sequence[PayResult]) -> list[tuple[Order, int]]:
        """Return the orders to be retried, and note the others as paid or stuck."""
        if results.count(PAID) == len(batch):  # the usual case
            self.unpaid_fen -= batch.fen
            return []
        left: list[tuple[Order, int]] = []
        attempts = batch.attempts + 1
        for (order, seq), (status, reason) in zip(batch.orders_with_seqs(), results, strict=True):
            given_up = status is PayStatus.UNKNOWN and attempts >= PAY_ATTEMPTS
            if status is PayStatus.UNKNOWN and not given_up:
                left.append((order, seq))
                continue
            self.unpaid_fen -= order.amount_fen
            if status is not PayStatus.PAID:
                text = (reason or "no answer")[:STUCK_REASON_CHARS]
                batch.stuck.append(StuckOrder(order.envelope_id, seq, text, attempts, order.amount_fen))
                _log.error("payout stuck", order_no=order.order_no, reason=reason, envelope_id=str(order.envelope_id))
        return left

    def _on_final(self, batch: PayoutBatch) -> None:
        self._retries.forget(batch)
        self._finisher.add(batch)

    def _on_deleted(self, batches: Sequence[PayoutBatch]) -> None:
        self._held.difference_update(batch.batch_id for batch in batches)
