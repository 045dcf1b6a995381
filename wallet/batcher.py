"""Group commit: what arrives while a transaction runs goes into the next one, in order of arrival.

Two lines, each in its own order: creates and deposits, for which somebody waits, and payouts, for which nobody does.
A transaction takes from both, so that a backlog of payouts delays a create by one transaction and never keeps it out.

Durability: a future is resolved only after the commit. Cancellation: a caller that hangs up lets go of its future;
the transaction is never cancelled. When our own patience ends, the connection is dropped without a cancel request,
the outcome counts as unknown, and the same order numbers are tried again.
"""

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

import asyncpg

from envelope.errors import HongbaoError, InvariantBroken, Refused, Unavailable
from runtime import logs
from runtime.postgres import Session, is_lost, pause
from wallet import measures
from wallet.decide import PAID, Plan
from wallet.draft import Draft
from wallet.ledger import Ledger
from wallet.limits import (
    ALONE_AFTER,
    BUSY_RETRY_S,
    COMMIT_PATIENCE_S,
    IDLE_CHECK_S,
    MAX_BATCH_CREATES,
    MAX_BATCH_ORDERS,
    MAX_QUEUED_CREATES,
    MAX_QUEUED_ORDERS,
    REQUEST_DEADLINE_S,
)
from wallet.requests import PayRequest, Request
from wire.messages import Fund

_REFUTED = (asyncpg.UniqueViolationError, asyncpg.CheckViolationError)
_TRY_AGAIN = ("40001", "40P01", "55P03")
"""Serialization failure, deadlock, lock not available: nothing was written."""

_log = logs.get("wallet")


class Job:
    """A request waiting for its transaction."""

    __slots__ = ("deadline", "draft", "future", "lost", "sent")

    def __init__(self, draft: Draft, deadline: float, future: asyncio.Future[Any]) -> None:
        self.draft = draft
        self.deadline = deadline
        self.future = future
        self.sent = False
        self.lost = False
        """An attempt lost its connection: it may have committed, whatever became of those after it."""


class Line:
    """Jobs of one kind. At most `queued` orders wait; a transaction takes at most `batched` of them."""

    def __init__(self, queued: int, batched: int) -> None:
        self.jobs: deque[Job] = deque()
        self.orders = 0
        self._queued = queued
        self._batched = batched

    def room(self, size: int) -> bool:
        """Say whether so many orders may wait here."""
        return self.orders + size <= self._queued

    def put(self, job: Job) -> None:
        """Line up."""
        self.jobs.append(job)
        self.orders += job.draft.request.size

    def take(self) -> tuple[list[Job], int]:
        """Take what goes into the next transaction, at least one job if there is any; returns it and its orders."""
        taken: list[Job] = []
        orders = 0
        while self.jobs and (not taken or orders + self.jobs[0].draft.request.size <= self._batched):
            taken.append(self.jobs.popleft())
            orders += taken[-1].draft.request.size
        self.orders -= orders
        return taken, orders


class Batcher:
    """The lines before the ledger; `run()` it in exactly one task, `submit` from anywhere in the loop."""

    def __init__(self, session: Session, ledger: Ledger) -> None:
        self._session = session
        self._ledger = ledger
        self._awaited = Line(MAX_QUEUED_CREATES, MAX_BATCH_CREATES)
        self._payouts = Line(MAX_QUEUED_ORDERS, MAX_BATCH_ORDERS)
        self._wake = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._stopping = False

    @property
    def up(self) -> bool:
        """Whether the writing connection is open."""
        return self._session.up

    def submit(self, request: Request) -> asyncio.Future[Any]:
        """Draft and queue `request`; the future gives its answer (see `decide.Plan`) once it is durable.

        Raises Unavailable(`busy`) at once when its line is full or the wallet is stopping.
        """
        line = self._payouts if isinstance(request, PayRequest) else self._awaited
        if self._stopping or not line.room(request.size):
            raise Unavailable("busy", "the wallet has too much to do; try again shortly", retry_after_s=BUSY_RETRY_S)
        job = Job(Draft(request), self._loop.time() + REQUEST_DEADLINE_S, self._loop.create_future())
        line.put(job)
        self._wake.set()
        return job.future

    def stop(self) -> None:
        """Take nothing new; `run` returns when nothing waits."""
        self._stopping = True
        self._wake.set()

    async def run(self) -> None:
        """Write batches until stopped and empty."""
        batch: list[Job] = []
        try:
            while True:
                batch = self._take()
                if batch:
                    await self._settle(batch)
                elif self._stopping:
                    return
                else:
                    await self._idle()
        finally:
            for job in (*batch, *self._awaited.jobs, *self._payouts.jobs):
                self._let_go([job], _too_late(sent=job.sent))
            await self._session.close()

    def _take(self) -> list[Job]:
        awaited, creates = self._awaited.take()
        payouts, orders = self._payouts.take()
        measures.queue_depth.set(self._awaited.orders + self._payouts.orders)
        batch = awaited + payouts
        if batch:
            measures.batch_orders.observe(creates + orders)
        return batch

    async def _idle(self) -> None:
        # No await between "nothing waits" (_take) and clear(): a wake-up cannot be lost.
        self._wake.clear()
        try:
            # Nobody came for the transaction that the last COMMIT may have begun.
            await self._roll_back(await self._session.use())
            async with asyncio.timeout(IDLE_CHECK_S):
                await self._wake.wait()
        except TimeoutError:
            return
        except Exception as error:  # noqa: BLE001 - also a wrong password: `/readyz` says no until somebody mends it
            _log.warning("no ledger", error=f"{type(error).__name__}: {error}")
            await pause(3)

    async def _settle(self, batch: list[Job]) -> None:
        """Bring every job of `batch` to an answer, or to its deadline."""
        started = time.perf_counter()
        careful = 0
        attempt = 0
        while batch := self._still_wanted(batch):
            attempt += 1
            try:
                plan = await self._attempt(batch, careful=careful > 0)
            except _REFUTED:
                careful += 1
                if careful >= ALONE_AFTER:
                    await self._alone(batch)
                    return
            except Exception as error:  # noqa: BLE001 - every error must end in an answer
                if not _may_try_again(error):
                    _log.error("batch failed", error=f"{type(error).__name__}: {error}", orders=len(batch))
                    await self._alone(batch)
                    return
                await pause(attempt)
            else:
                measures.commit_seconds.observe(time.perf_counter() - started)
                _answer(batch, plan)
                return

    async def _alone(self, batch: list[Job]) -> None:
        """Give each request a transaction of its own: one that cannot be written must not hold up the others."""
        for job in batch:
            for attempt in range(1, ALONE_AFTER + 1):
                if not self._still_wanted([job]):
                    break
                try:
                    plan = await self._attempt([job], careful=True)
                except Exception as error:  # noqa: BLE001 - every error must end in an answer
                    if attempt == ALONE_AFTER:
                        self._let_go([job], _failed(error, known=not job.lost))
                    else:
                        await pause(attempt)
                else:
                    _answer([job], plan)
                    break

    async def _attempt(self, batch: list[Job], *, careful: bool) -> Plan:
        async def write(connection: Any) -> Plan:
            for job in batch:
                job.sent = True
            try:
                return await self._ledger.write(
                    connection, [job.draft for job in batch], careful=careful, follows=self._follows
                )
            except Exception as error:
                measures.attempts.labels(type(error).__name__).inc()
                if not is_lost(error):
                    await self._roll_back(connection)
                raise

        try:
            plan = await self._session.to_the_end(write, COMMIT_PATIENCE_S)
        except Exception as error:
            if isinstance(error, InvariantBroken):
                measures.broken.labels(error.check).inc()
            for job in batch:
                job.lost |= is_lost(error)
            raise
        measures.attempts.labels("careful" if careful else "optimistic").inc()
        return plan

    def _follows(self) -> bool:
        """Say whether somebody waits for the next transaction."""
        return bool(self._awaited.jobs)

    async def _roll_back(self, connection: Any) -> None:
        """Leave the connection without a transaction, or throw it away where that cannot be known."""
        try:
            async with asyncio.timeout(1.0):
                if connection.is_in_transaction():
                    await connection.execute("ROLLBACK")
        except Exception:  # noqa: BLE001 - a connection that cannot roll back is of no use
            self._session.drop()

    def _still_wanted(self, batch: list[Job]) -> list[Job]:
        now = self._loop.time()
        late = [job for job in batch if job.deadline <= now]
        for job in late:
            self._let_go([job], _too_late(sent=job.sent))
        return [job for job in batch if job.deadline > now] if late else batch

    def _let_go(self, jobs: Sequence[Job], error: HongbaoError) -> None:
        for job in jobs:
            if not job.future.done():
                job.future.set_exception(error)
                job.future.exception()  # a caller that hung up need not collect it


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


def _answer(batch: Sequence[Job], plan: Plan) -> None:
    refused: list[str] = []
    for job, answer in zip(batch, plan.answers, strict=True):
        if isinstance(answer, list):
            refused.extend(str(result[1]) for result in answer if result is not PAID)
        elif isinstance(answer, tuple) and answer[0] > Fund.REPLAYED:
            refused.append(Fund(answer[0]).name.lower())
        if job.future.done():
            continue
        if isinstance(answer, Refused):
            job.future.set_exception(answer)
            job.future.exception()
        else:
            job.future.set_result(answer)
    _shout(refused)
    measures.count(plan, refused)


def _shout(refused: Sequence[str]) -> None:
    """Count and log loudly that an escrow cannot pay its claims: a broken invariant."""
    short = refused.count("escrow_short")
    if short:
        measures.broken.labels("escrow_short").inc(short)
        _log.error("escrow cannot pay its claims", orders=short)
