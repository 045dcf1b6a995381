"""The payer: workers that send payout orders to the wallet and record their results (why it is safe: the package)."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from itertools import chain

from errors import HongbaoError, Refused
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
from setnode.services.payouts.intents import Pick, finish_intents, read_intents
from setnode.services.payouts.payout_batch import PayoutBatch
from setnode.services.payouts.payout_queues import PayoutQueue, RetryQueue
from wire.messages import PAID, PayResult, PayStatus
from wire.wallet import WALLET_UNAVAILABLE, Order, WalletClient

AWAY = frozenset({WALLET_UNAVAILABLE, "outcome_unknown"})
"""Codes of a wallet that does not answer. Other errors are answers: it is busy, or its database is away."""

_log = logs.get("setnode")
_paid = metrics.counter("hongbao_payouts_total", "Orders by result", ("result",))
_lag = metrics.seconds("hongbao_payout_lag_seconds", "From the commit of a claim to its credit")
_stuck = metrics.counter("hongbao_payouts_stuck_total", "Orders handed to an operator")


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
        self._finished: list[PayoutBatch] = []
        self._finishing = asyncio.Lock()
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
            async with self._finishing:
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
            if batches and (error := await self._pay(batches, queue)):
                failures += 1
                await self._pause(failures, error)
                continue
            failures = 0
            try:
                await self._finish()
            except Exception as error:  # noqa: BLE001 - the rows stay; the next call deletes them
                _log.warning("finished payouts could not be deleted yet", error=f"{type(error).__name__}: {error}")
                await postgres.pause(3)  # as after a third failure

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
        except Refused as refusal:
            return await self._pay_one_by_one(batches, refusal, queue)
        except HongbaoError as error:
            _log.warning("wallet away", error=error.detail, orders=len(orders))
            queue.put_back(batches)
            if error.code in AWAY:
                self._wallet_answers.clear()
            return error
        self._wallet_answers.set()
        at = 0
        for batch in batches:
            size = len(batch)
            self._apply_results(batch, results[at : at + size])
            at += size
        return None

    async def _pay_one_by_one(
        self, batches: Sequence[PayoutBatch], refusal: Refused, queue: PayoutQueue
    ) -> HongbaoError | None:
        """Send each batch in a call of its own; the orders of one that is still refused as a whole count as UNKNOWN."""
        if len(batches) > 1:
            errors = [await self._pay([batch], queue) for batch in batches]
            return next(filter(None, errors), None)
        self._apply_results(batches[0], [PayResult(PayStatus.UNKNOWN, refusal.detail)] * len(batches[0]))
        return None

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
        for (order, seq), (status, reason) in zip(batch.orders_with_seqs(), results, strict=True):
            given_up = status is PayStatus.UNKNOWN and batch.attempts >= PAY_ATTEMPTS
            if status is PayStatus.UNKNOWN and not given_up:
                left.append((order, seq))
                continue
            self.unpaid_fen -= order.amount_fen
            if status is not PayStatus.PAID:
                batch.stuck.append((order.envelope_id, seq, (reason or "no answer")[:STUCK_REASON_CHARS]))
                _log.error("payout stuck", order_no=order.order_no, reason=reason, envelope_id=str(order.envelope_id))
        return left

    def _on_final(self, batch: PayoutBatch) -> None:
        self._retries.forget(batch)
        self._finished.append(batch)
        # Wakes a worker, which deletes the row.
        self._new.nonempty.set()

    async def _finish(self) -> None:
        """Delete the rows of all finished batches and write what is stuck, in one transaction; repeated if it fails."""
        if not self._finished:
            return
        async with self._finishing:
            batches, self._finished = self._finished, []
            if not batches:
                return
            # `holds` is asked again: the wallet's answer may be older than a move.
            stuck = [(*one, batch.attempts + 1) for batch in batches for one in batch.stuck if self._holds(one[0])]
            now = self._clock.now()
            try:
                await self._session.run(
                    lambda connection: finish_intents(connection, batches, stuck, now), SERVICE_DEADLINE_S
                )
            except BaseException:
                self._finished.extend(batches)
                self._new.nonempty.set()
                raise
        _stuck.inc(len(stuck))
        self._held.difference_update(batch.batch_id for batch in batches)
