"""Group commit: requests that arrive while a transaction runs are written by the next one, in order of arrival.

Two queues, each with its own order and bound: creates and deposits, whose callers wait for the reply, and payouts, for
which no user waits. A transaction takes from both, so a backlog of payouts delays a create by one transaction at most.

Durability: a future gets its result only after the commit. Cancellation: a caller that hangs up gives up its future;
the transaction is never cancelled. If the connection is lost, the same requests are tried again on a new one until
their deadline. If it stays silent, it is dropped after COMMIT_PATIENCE_S without a cancel request; by then the deadline
is past, and the requests fail with `outcome_unknown`.
"""

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import asyncpg

from errors import HongbaoError, InvariantBroken, Refused, Unavailable
from runtime import logs
from runtime.postgres import Connection, Session, is_lost, pause
from wallet import metrics
from wallet.decide import Plan
from wallet.draft import Draft
from wallet.ledger import BatchRefused, Ledger
from wallet.limits import (
    ALONE_AFTER,
    BUSY_RETRY_S,
    COMMIT_PATIENCE_S,
    IDLE_CHECK_S,
    MAX_BATCH_CREATES,
    MAX_BATCH_ORDERS,
    MAX_QUEUED_CREATES,
    MAX_QUEUED_ORDERS,
    NAMED_ORDERS,
    REQUEST_DEADLINE_S,
    ROLLBACK_S,
)
from wallet.queue import PendingRequest, RequestQueue
from wallet.requests import PayRequest, WalletRequest
from wire.limits import CREATES_CROWD
from wire.load import Waits
from wire.messages import PAID, FundStatus

_REFUTED = (BatchRefused, asyncpg.UniqueViolationError, asyncpg.CheckViolationError)
"""An assumption of the optimistic attempt was wrong (`wallet.decide`): nothing was written."""
_TRY_AGAIN = ("40001", "40P01", "55P03")
"""Serialization failure, deadlock, lock not available: nothing was written."""

BROKEN = {
    "escrow_short": "escrow cannot pay its claims",
    "fund_exceeded": "more was ordered for an envelope than was paid in for it",
}
"""Checks that a payout without money has not passed."""
_log = logs.get("wallet")


class Batcher:
    """The queues before the ledger; `run()` it in exactly one task, `submit` from anywhere in the loop."""

    def __init__(self, session: Session, ledger: Ledger) -> None:
        self._session = session
        self._ledger = ledger
        self._creates = RequestQueue(MAX_QUEUED_CREATES, MAX_BATCH_CREATES)
        self._payouts = RequestQueue(MAX_QUEUED_ORDERS, MAX_BATCH_ORDERS)
        self._wake = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self.waits = Waits(self._oldest_wait, lambda: len(self._creates.waiting), CREATES_CROWD)
        """How long creates and deposits wait for a transaction (`wire.load`)."""
        self._stopping = False

    @property
    def up(self) -> bool:
        """Whether the writing connection is open."""
        return self._session.up

    def submit(self, request: WalletRequest) -> asyncio.Future[Any]:
        """Draft and queue `request`; the future gives its answer (see `decide.Plan`) once it is durable.

        Raises Unavailable(`busy`) at once when its queue is full or the wallet is stopping. The future fails with
        Refused (this request only), Unavailable with a known outcome (nothing was sent by its deadline), or
        `outcome_unknown`.
        """
        queue = self._payouts if isinstance(request, PayRequest) else self._creates
        if self._stopping or not queue.has_room(request.size):
            raise Unavailable("busy", "the wallet has too much to do; try again shortly", retry_after_s=BUSY_RETRY_S)
        pending = PendingRequest(Draft(request), self._loop.time() + REQUEST_DEADLINE_S, self._loop.create_future())
        queue.put(pending)
        self._wake.set()
        return pending.future

    def stop(self) -> None:
        """Refuse new requests; `run` returns once both queues are empty."""
        self._stopping = True
        self._wake.set()

    async def run(self) -> None:
        """Write batches until stopped and empty.

        If it is cancelled, the requests that are left fail: `outcome_unknown` if they were sent, else `busy`.
        """
        batch: list[PendingRequest] = []
        try:
            while True:
                batch = self._next_batch()
                if batch:
                    await self._process(batch)
                elif self._stopping:
                    return
                else:
                    await self._idle()
        finally:
            for pending in (*batch, *self._creates.waiting, *self._payouts.waiting):
                _fail(pending, _too_late(sent=pending.sent))
            await self._session.close()

    def _next_batch(self) -> list[PendingRequest]:
        created, creates = self._creates.next_batch()
        if created:
            self.waits.note(self._waited(created[0]))
        paid, orders = self._payouts.next_batch()
        metrics.queue_depth.set(self._creates.orders + self._payouts.orders)
        batch = created + paid
        if batch:
            metrics.batch_orders.observe(creates + orders)
        return batch

    def _waited(self, pending: PendingRequest) -> float:
        return self._loop.time() - (pending.deadline - REQUEST_DEADLINE_S)

    def _oldest_wait(self) -> float:
        waiting = self._creates.waiting
        return self._waited(waiting[0]) if waiting else 0.0

    async def _idle(self) -> None:
        # No await between an empty `_next_batch` and clear(): a wake-up cannot be lost.
        self._wake.clear()
        try:
            if not self._session.up:
                await self._session.use()
            if not await self._woken():
                # A connection that has gone silent is found before a request is sent on it, and `/readyz` says no.
                await self._session.run(lambda connection: connection.fetchval("SELECT 1"), IDLE_CHECK_S)
        except Exception as error:  # noqa: BLE001 - also a wrong password: `/readyz` says no until an operator mends it
            _log.warning("no ledger", error=f"{type(error).__name__}: {error}")
            await pause(3)

    async def _woken(self) -> bool:
        try:
            async with asyncio.timeout(IDLE_CHECK_S):
                await self._wake.wait()
        except TimeoutError:
            return False
        return True

    async def _process(self, batch: list[PendingRequest]) -> None:
        """Write `batch`, trying again until each of its requests has an answer or is past its deadline.

        The first attempt is optimistic; once refuted, the next are careful; refuted ALONE_AFTER times, or after an
        error that a retry would not mend, each request gets a transaction of its own.
        """
        started = time.perf_counter()
        refuted = 0
        attempt = 0
        while batch := self._within_deadline(batch):
            attempt += 1
            try:
                plan = await self._attempt(batch, careful=refuted > 0)
            except _REFUTED:
                refuted += 1
                if refuted >= ALONE_AFTER:
                    await self._write_one_by_one(batch)
                    return
            except Exception as error:  # noqa: BLE001 - every error must end in an answer
                if not _may_try_again(error):
                    _log.error("batch failed", error=f"{type(error).__name__}: {error}", orders=len(batch))
                    await self._write_one_by_one(batch)
                    return
                await pause(attempt)
            else:
                metrics.commit_seconds.observe(time.perf_counter() - started)
                _answer(batch, plan)
                return

    async def _write_one_by_one(self, batch: list[PendingRequest]) -> None:
        """Give each request a transaction of its own, so that one that cannot be written fails alone."""
        for pending in batch:
            for attempt in range(1, ALONE_AFTER + 1):
                if not self._within_deadline([pending]):
                    break
                try:
                    plan = await self._attempt([pending], careful=True)
                except Exception as error:  # noqa: BLE001 - every error must end in an answer
                    if attempt == ALONE_AFTER:
                        _fail(pending, _failed(error, known=not pending.lost))
                    else:
                        await pause(attempt)
                else:
                    _answer([pending], plan)
                    break

    async def _attempt(self, batch: list[PendingRequest], *, careful: bool) -> Plan:
        async def write(connection: Connection) -> Plan:
            for pending in batch:
                pending.sent = True
            try:
                return await self._ledger.write(connection, [pending.draft for pending in batch], careful=careful)
            except Exception as error:
                metrics.attempts.labels(type(error).__name__).inc()
                if not is_lost(error):
                    await self._roll_back(connection)
                raise

        try:
            plan = await self._session.run_inline(write, COMMIT_PATIENCE_S)
        except Exception as error:
            if isinstance(error, InvariantBroken):
                metrics.broken.labels(error.check).inc()
            for pending in batch:
                pending.lost |= is_lost(error)
            raise
        metrics.attempts.labels("careful" if careful else "optimistic").inc()
        return plan

    async def _roll_back(self, connection: Connection) -> None:
        """Leave the connection without a transaction, or drop it if the rollback fails."""
        try:
            async with asyncio.timeout(ROLLBACK_S):
                if connection.is_in_transaction():
                    await connection.execute("ROLLBACK")
        except Exception:  # noqa: BLE001 - a connection that cannot roll back is of no use
            self._session.drop()

    def _within_deadline(self, batch: list[PendingRequest]) -> list[PendingRequest]:
        """Fail the requests past their deadline; return the others."""
        now = self._loop.time()
        late = [pending for pending in batch if pending.deadline <= now]
        for pending in late:
            _fail(pending, _too_late(sent=pending.sent))
        return [pending for pending in batch if pending.deadline > now] if late else batch


def _may_try_again(error: Exception) -> bool:
    return isinstance(error, Unavailable) or is_lost(error) or getattr(error, "sqlstate", None) in _TRY_AGAIN


def _failed(error: Exception, *, known: bool) -> Unavailable:
    _log.error("request failed", error=f"{type(error).__name__}: {error}")
    return Unavailable("internal_error", "an unexpected error was logged", outcome_known=known)


def _too_late(*, sent: bool) -> Unavailable:
    if sent:
        text = "the ledger did not confirm in time; repeat with the same number: it is safe and tells the real outcome"
        return Unavailable("outcome_unknown", text, outcome_known=False)
    return Unavailable("busy", "the ledger was not reached in time; try again shortly", retry_after_s=BUSY_RETRY_S)


def _fail(pending: PendingRequest, error: HongbaoError) -> None:
    if not pending.future.done():
        pending.future.set_exception(error)
        pending.future.exception()  # marks it as retrieved: the caller may have hung up


def _answer(batch: Sequence[PendingRequest], plan: Plan) -> None:
    """Set the results of a batch that has committed; count what was done and what was refused."""
    refused: list[str] = []
    for pending, answer in zip(batch, plan.answers, strict=True):
        if isinstance(answer, list):
            refused.extend(str(result.reason) for result in answer if result is not PAID)
        elif isinstance(answer, tuple) and answer[0] > FundStatus.REPLAYED:
            refused.append(FundStatus(answer[0]).name.lower())
        if isinstance(answer, Refused):
            _fail(pending, answer)
        elif not pending.future.done():
            pending.future.set_result(answer)
    if not BROKEN.keys().isdisjoint(refused):
        _report_broken(batch, plan)
    metrics.count(plan, refused)


def _report_broken(batch: Sequence[PendingRequest], plan: Plan) -> None:
    """Count payouts for which there is no money, a broken invariant, and log the check with their order numbers."""
    orders: dict[str, list[str]] = {check: [] for check in BROKEN}
    for pending, answer in zip(batch, plan.answers, strict=True):
        if isinstance(pending.draft.request, PayRequest) and isinstance(answer, list):
            for order, result in zip(pending.draft.request.orders, answer, strict=True):
                if result.reason in orders:
                    orders[result.reason].append(order.order_no)
    for check, found in orders.items():
        if found:
            metrics.broken.labels(check).inc(len(found))
            _log.error(BROKEN[check], check=check, orders=len(found), order_nos=found[:NAMED_ORDERS])
