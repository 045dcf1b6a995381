"""The backlog: committed batches whose payouts are not all final, as far as this server holds them in memory."""

import time
from collections.abc import Callable, Sequence
from datetime import timedelta

from runtime import logs, metrics, postgres
from runtime.clock import Clock
from setnode.actors.batch import ClaimBatch
from setnode.limits import (
    ADOPT_AFTER_S,
    PAY_ATTEMPTS,
    PAY_QUEUE,
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
from wire.wallet import Order

_log = logs.get("setnode")
_paid = metrics.counter("hongbao_payouts_total", "Orders by result", ("result",))
_lag = metrics.seconds("hongbao_payout_lag_seconds", "From the commit of a claim to its credit")


class PayoutBacklog:
    """Batches of one server: taken in when they are committed or read back, let go when their rows are deleted.

    `new` and `retries` are the queues from which the payer takes batches; it returns them with the wallet's results
    (`settle`), or without (`leave_to_postgres`, `PayoutQueue.put_back`). `finisher` deletes the rows of finished ones.
    `holds` says whether an envelope is on this SET. Orders of envelopes that have moved are dropped: the move has
    copied their intents to the other SET.
    """

    def __init__(
        self,
        session: postgres.Session,
        clock: Clock,
        server: str,
        holds: Callable[[int], bool] = lambda _: True,
        waits: Callable[[], bool] = lambda: False,
    ) -> None:
        self.new = PayoutQueue()
        self.retries = RetryQueue()
        # Waking the workers lets one of them write what is finished.
        self.finisher = Finisher(session, clock, holds, self.new.nonempty.set, self._on_deleted, waits)
        self.unpaid_fen = 0
        """In the batches held in memory, claimed and not credited yet."""
        self.stuck_fen = 0
        """Claimed in this SET and stuck for an operator, at the last `read_back`."""
        self._session = session
        self._clock = clock
        self._server = server
        self._holds = holds
        self._held: set[int] = set()
        self._overflow = True
        """Whether Postgres may hold batches of this server that memory does not: at start those of an earlier life."""
        self._aside_up_to = 0
        """The newest batch that was set aside since the rows were last read from the beginning."""

    @property
    def held(self) -> int:
        """Batches in memory that are not finished."""
        return len(self._held)

    @property
    def _free(self) -> int:
        """How many more new batches fit into memory."""
        return PAY_QUEUE - (len(self._held) - len(self.retries))

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
        payout_batch.traced = batch.paid_for
        self._hold(payout_batch)
        self.new.put(payout_batch)

    async def read_back(self) -> int:
        """Read batches from Postgres that memory does not hold; returns how many were taken in.

        They are this server's own after an overflow or a start, batches that another server has left for ADOPT_AFTER_S,
        and spilled batches whose time of retry has come.
        """
        limit = max(0, min(self._free, READ_BACK_BATCHES))
        again = self.retries.due(READ_BACK_SPILLED)
        if not limit and not again:
            return 0
        left_before = self._clock.now() - timedelta(seconds=ADOPT_AFTER_S)
        # Cleared before the first await, so that a batch that overflows meanwhile sets it again.
        own, self._overflow = self._overflow, False
        try:
            async with self.finisher.turn:
                held = [*self._held, *self.retries.spilled]
                pick = Pick(self._server, left_before, held, limit, own, self._aside_up_to)
                found = await self._session.run(
                    lambda connection: read_intents(connection, pick, again), SERVICE_DEADLINE_S
                )
        except BaseException:
            self._overflow = True
            raise
        self.stuck_fen = found.stuck_fen
        self._overflow |= found.picked >= limit
        if found.picked < limit and self._aside_up_to:
            # All have been looked at: from the beginning again, for what was opened meanwhile, or missed.
            self._aside_up_to, self._overflow = 0, True
        since = time.monotonic()
        taken = {
            batch_id: PayoutBatch(batch_id, *claims, since)
            for batch_id, claims in found.claims.items()
            if batch_id not in self._held
        }
        for batch_id, batch in taken.items():
            self._hold(batch)
            if batch_id not in again:
                self.new.put(batch)
        for batch_id in again:
            self.retries.restore(batch_id, taken.get(batch_id))
        return len(taken)

    def drop_moved(self, batches: Sequence[PayoutBatch]) -> list[PayoutBatch]:
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

    def settle(self, batch: PayoutBatch, results: Sequence[PayResult]) -> None:
        """Record the results; orders without a final one are kept for a retry under the same order numbers."""
        batch.note_refunds(results)
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
        if not self.retries.keep(batch):
            self._held.discard(batch.batch_id)
            self.unpaid_fen -= batch.fen

    def leave_to_postgres(self, batches: Sequence[PayoutBatch]) -> None:
        """Let go of batches that could not be paid for a fault of ours; `read_back` finds them again."""
        for batch in batches:
            self.retries.forget(batch)
            if batch.batch_id in self._held and batch not in self.finisher:
                self._held.discard(batch.batch_id)
                self.unpaid_fen -= batch.fen
        self._overflow = True

    def set_aside(self, batches: Sequence[PayoutBatch]) -> None:
        """Let go of batches whose refunds are paid while payouts are closed; `read_back` goes on behind them."""
        self.leave_to_postgres(batches)
        self._aside_up_to = max(self._aside_up_to, *(batch.batch_id for batch in batches))

    def _hold(self, batch: PayoutBatch) -> None:
        self._held.add(batch.batch_id)
        self.unpaid_fen += batch.fen

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
                batch.stuck.append(StuckOrder(order.envelope_id, seq, text, attempts, order.amount_fen, order.user))
                _log.error("payout stuck", order_no=order.order_no, reason=reason, envelope_id=str(order.envelope_id))
        return left

    def _on_final(self, batch: PayoutBatch) -> None:
        self.retries.forget(batch)
        self.finisher.add(batch)

    def _on_deleted(self, batches: Sequence[PayoutBatch]) -> None:
        self._held.difference_update(batch.batch_id for batch in batches)
