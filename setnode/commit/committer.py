"""Group commit: all that is ready when a connection becomes free goes into one transaction.

The batch adapts by itself. At low load a single claim starts its transaction at once; under load, all that arrives
during one commit makes up the next. Each connection has one worker; a `CommitQueue` says what is written and what
follows.
"""

import asyncio
import time
from collections.abc import Sequence
from typing import Any, Generic, Protocol, TypeVar

from errors import HongbaoError, InvariantBroken, Unavailable
from runtime import logs, metrics, postgres
from setnode.commit.admission import Admission, Lease
from setnode.limits import COMMIT_DEADLINE_S, FAILED_PAUSE_S, GRACE_S, LEASE_TERM_S, LONG_LEASE_TERM_S

_log = logs.get("setnode")
_rows = metrics.sizes("hongbao_commit_batch_rows", "Rows of one transaction")
_seconds = metrics.seconds("hongbao_commit_seconds", "Duration of one transaction, from send to durable")
_failed = metrics.counter("hongbao_commit_failed_total", "Transactions that failed or whose outcome was lost")

Batch = TypeVar("Batch")


class CommitQueue(Protocol[Batch]):
    """One kind of write. All methods but `write` are synchronous; `write` awaits nothing but the connection.

    For each batch that `next_batch` returns, exactly one of `on_committed` and `on_failed` is called.
    """

    nonempty: asyncio.Event
    """Set while anything waits."""
    backlogged: asyncio.Event
    """Set while so much waits that a second transaction beside the first is worth its cost."""

    def hot_envelopes(self) -> Sequence[int]:
        """Return the waiting envelopes that need a lease of their own."""

    def next_batch(self, skip: set[int]) -> Batch | None:
        """Take what is ready into a batch, without the envelopes in `skip`; None if nothing needs writing."""

    async def write(self, connection: Any, batch: Batch) -> Any:
        """Write the batch in one transaction; durable when it returns."""

    def on_committed(self, batch: Batch, result: Any) -> None:
        """Reply, now or once the next batch is sent: the batch is durable, `result` is what `write` returned."""

    def on_failed(self, batch: Batch, error: Exception) -> None:
        """Reply, now or once it is known what is committed: the batch failed, or its outcome is unknown."""

    def on_rejected(self, error: HongbaoError) -> None:
        """Reply `error` to all that waits: no lease was acquired in time, nothing was written."""


class Committer(Generic[Batch]):
    """Workers over `sessions`, one each, that drain a queue under admission."""

    def __init__(self, queue: CommitQueue[Batch], sessions: Sequence[postgres.Session], admission: Admission) -> None:
        self._queue = queue
        self._sessions = sessions
        self._admission = admission
        self._writing: set[postgres.Session] = set()
        self._draining = 0
        """Workers that hold a lease."""
        self._drained_at = float("-inf")
        """When one of them gave its lease back last (loop time)."""
        self._leaving = False

    @property
    def idle(self) -> bool:
        """Whether no transaction is in flight and nothing waits for one."""
        return not self._writing and not self._queue.nonempty.is_set()

    async def run(self) -> None:
        """Drain until cancelled, then finish the transactions in flight, because a commit is never cancelled.

        A task group would cancel the workers while they write, and a shielded task for each transaction would be
        slower. If `run` is cancelled a second time, because the process has no time left, the connections are dropped
        without a cancel request.
        """
        workers: dict[asyncio.Task[None], postgres.Session] = {}
        for session in self._sessions:
            # The first worker takes whatever waits, the others only a backlog: at moderate load one batch of twice the
            # size costs less than two.
            if workers:
                work = self._work(session, self._queue.backlogged, LEASE_TERM_S)
            else:
                work = self._work(session, self._queue.nonempty, LONG_LEASE_TERM_S)
            workers[asyncio.ensure_future(work)] = session
        try:
            await asyncio.wait(workers, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._leaving = True
            await self._finish(workers)
        for worker in workers:
            if not worker.cancelled():
                worker.result()
        raise InvariantBroken("committer_drains", "a worker of the committer has ended by itself")

    async def _finish(self, workers: dict[asyncio.Task[None], postgres.Session]) -> None:
        """End idle workers at once and writing ones after their transaction; all at once if this is cancelled."""
        try:
            for worker, session in workers.items():
                if session not in self._writing:
                    worker.cancel()
            await asyncio.wait(workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.wait(workers)

    async def _work(self, session: postgres.Session, signal: asyncio.Event, most_s: float) -> None:
        """Drain the queue under one lease after the other, of at most `most_s` each, whenever `signal` is set."""
        failures = 0
        while not self._leaving:
            await signal.wait()
            if failures:
                # A failed batch is back in the queue at once; without a pause it would be sent in a tight loop.
                await postgres.pause(failures, most_s=FAILED_PAUSE_S)
            began = asyncio.get_running_loop().time()
            try:
                lease = await self._admission.acquire()
            except Unavailable as busy:
                # While another worker drains the queue, what waits will be in one of its next batches. One that has
                # drained it while this one waited may be on its way to the next lease.
                if not self._draining and self._drained_at < began:
                    self._queue.on_rejected(busy)
                continue
            self._draining += 1
            try:
                failures = 0 if await self._drain(session, lease, most_s) else failures + 1
            finally:
                self._draining -= 1
                self._drained_at = asyncio.get_running_loop().time()
                self._admission.release(lease)

    async def _drain(self, session: postgres.Session, lease: Lease, most_s: float) -> bool:
        """Write one batch after the other under one lease, while there is more and its term is not over.

        The lease covers one transaction at a time, so the cap holds; a term is shorter than the time that a transaction
        waits at the cap, so no server starves. Returns False after a batch that failed.
        """
        loop, term = asyncio.get_running_loop(), self._admission.term(lease, most_s)
        while True:
            hot = [envelope_id for envelope_id in self._queue.hot_envelopes() if envelope_id not in lease.hot]
            full = await self._admission.acquire_hot(hot, lease) if hot else set()
            batch = self._queue.next_batch(full)
            if batch is not None and not await self._commit(session, batch):
                return False
            if self._leaving or term.over(loop.time()) or not await self._more_soon():
                return True

    async def _more_soon(self) -> bool:
        """Say whether there is more to write, waiting GRACE_S: under load the next requests follow the last replies."""
        if not self._queue.nonempty.is_set():
            try:
                async with asyncio.timeout(GRACE_S):
                    await self._queue.nonempty.wait()
            except TimeoutError:
                return False
        return True

    async def _commit(self, session: postgres.Session, batch: Batch) -> bool:
        """Run one transaction to its end; while it is in flight `run` does not cancel this worker."""
        self._writing.add(session)
        try:
            return await self._write(session, batch)
        finally:
            self._writing.discard(session)

    async def _write(self, session: postgres.Session, batch: Batch) -> bool:
        started = time.perf_counter()
        try:
            result = await session.run_inline(
                lambda connection: self._queue.write(connection, batch), COMMIT_DEADLINE_S
            )
        except Exception as error:  # noqa: BLE001 - every request must get a reply, whatever the error was
            _failed.inc()
            _log.warning("commit failed", error=f"{type(error).__name__}: {error}", lost=postgres.is_lost(error))
            session.drop()
            self._queue.on_failed(batch, error)
            return False
        _seconds.observe(time.perf_counter() - started)
        _rows.observe(len(batch))  # type: ignore[arg-type]
        self._queue.on_committed(batch, result)
        return True
