"""Group commit: whatever is ready when a connection comes free goes into one transaction.

The batch adapts by itself. Idle, a single claim starts its transaction at once; under load, all that gathers during
one commit makes the next. Each connection has one worker; `Lane` says what is written.
"""

import asyncio
import time
from collections.abc import Sequence
from typing import Any, Generic, Protocol, TypeVar

from envelope.errors import HongbaoError, InvariantBroken, Unavailable
from runtime import logs, metrics, postgres
from setnode.commit.admission import Admission, Lease
from setnode.limits import COMMIT_PATIENCE_S, GRACE_S, LONG_TURN_S, TURN_S

FAILED_PAUSE_S = 0.5
"""Longest pause of a worker whose transactions fail."""

_log = logs.get("setnode")
_rows = metrics.sizes("hongbao_commit_batch_rows", "Rows of one transaction")
_seconds = metrics.seconds("hongbao_commit_seconds", "Duration of one transaction, from send to durable")
_failed = metrics.counter("hongbao_commit_failed_total", "Transactions that failed or whose outcome was lost")

Batch = TypeVar("Batch")


class Lane(Protocol[Batch]):
    """One kind of write. All methods but `write` are synchronous; `write` touches nothing but the connection."""

    wanted: asyncio.Event
    """Set while something waits."""
    crowded: asyncio.Event
    """Set while so much waits that a second transaction beside the first is worth its cost."""

    def hot(self) -> Sequence[int]:
        """Return the envelopes waiting that are hot enough to count against the cap per envelope."""

    def gather(self, skip: set[int]) -> Batch | None:
        """Take what is ready into a batch, all but the envelopes in `skip`; None when nothing needs writing."""

    async def write(self, connection: Any, batch: Batch) -> Any:
        """Write the batch in one transaction."""

    def done(self, batch: Batch, result: Any) -> None:
        """The batch is durable: answer everybody, now or once the next one is on its way."""

    def lost(self, batch: Batch, error: Exception) -> None:
        """The batch failed, or nobody knows: find out, then answer."""

    def refuse(self, error: HongbaoError) -> None:
        """There is no entry for now: tell those who wait."""


class Committer(Generic[Batch]):
    """Workers over `sessions`, one each, that drain a lane under admission."""

    def __init__(self, lane: Lane[Batch], sessions: Sequence[postgres.Session], admission: Admission) -> None:
        self._lane = lane
        self._sessions = sessions
        self._admission = admission
        self._writing: set[postgres.Session] = set()
        self._leaving = False

    @property
    def idle(self) -> bool:
        """Whether no transaction is in flight and nothing waits for one."""
        return not self._writing and not self._lane.wanted.is_set()

    async def run(self) -> None:
        """Drain until cancelled; what is being written then is written to its end: a commit is never cancelled.

        So the workers are no task group, which would cancel them while they write. To have each transaction in a
        task of its own, shielded, took a tenth of the Python time of an open that is alone. Cancelled once more, when
        the process has no time left, it drops the connections without a word to the server.
        """
        workers: dict[asyncio.Task[None], postgres.Session] = {}
        for session in self._sessions:
            # The first connection takes whatever there is, the others only what it cannot keep up with: at
            # moderate load one batch of twice the size costs less than two.
            signal, most_s = (self._lane.crowded, TURN_S) if workers else (self._lane.wanted, LONG_TURN_S)
            workers[asyncio.ensure_future(self._work(session, signal, most_s))] = session
        try:
            await asyncio.wait(workers, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._leaving = True
            try:
                for worker, session in workers.items():
                    if session not in self._writing:
                        worker.cancel()
                await asyncio.wait(workers)
            finally:
                for worker in workers:
                    worker.cancel()
                await asyncio.wait(workers)
        for worker in workers:
            if not worker.cancelled():
                worker.result()
        raise InvariantBroken("committer_drains", "a worker of the committer has ended without being told to")

    async def _work(self, session: postgres.Session, signal: asyncio.Event, most_s: float) -> None:
        failures = 0
        while not self._leaving:
            await signal.wait()
            if failures:
                # What failed comes back at once; without a pause a database that refuses would be asked in a loop.
                await postgres.pause(failures, most_s=FAILED_PAUSE_S)
            try:
                lease = await self._admission.enter()
            except Unavailable as busy:
                self._lane.refuse(busy)
                continue
            try:
                failures = 0 if await self._drain(session, lease, most_s) else failures + 1
            finally:
                self._admission.leave(lease)

    async def _drain(self, session: postgres.Session, lease: Lease, most_s: float) -> bool:
        """Write one batch after the other under one entry, while there is more and the turn is not over.

        The entry stands for one transaction at a time, so the cap holds; where others may wait at the cap a turn is
        short against the time that they do, so nobody starves. Returns whether all of them went in.
        """
        loop, turn = asyncio.get_running_loop(), self._admission.turn(lease, most_s)
        while True:
            hot = [envelope_id for envelope_id in self._lane.hot() if envelope_id not in lease.hot]
            full = await self._admission.enter_hot(hot, lease) if hot else set()
            batch = self._lane.gather(full)
            if batch is not None and not await self._commit(session, batch):
                return False
            if self._leaving or turn.over(loop.time()) or not await self._more_soon():
                return True

    async def _more_soon(self) -> bool:
        """Say whether there is more to write; under load the next requests are on their way back already."""
        if not self._lane.wanted.is_set():
            try:
                async with asyncio.timeout(GRACE_S):
                    await self._lane.wanted.wait()
            except TimeoutError:
                return False
        return True

    async def _commit(self, session: postgres.Session, batch: Batch) -> bool:
        """Run one transaction to its end; while it is written `run` does not cancel this worker."""
        self._writing.add(session)
        try:
            return await self._write(session, batch)
        finally:
            self._writing.discard(session)

    async def _write(self, session: postgres.Session, batch: Batch) -> bool:
        started = time.perf_counter()
        try:
            result = await session.to_the_end(lambda connection: self._lane.write(connection, batch), COMMIT_PATIENCE_S)
        except Exception as error:  # noqa: BLE001 - whatever it was, nobody may be left without an answer
            _failed.inc()
            _log.warning("commit failed", error=f"{type(error).__name__}: {error}", lost=postgres.is_lost(error))
            session.drop()
            self._lane.lost(batch, error)
            return False
        _seconds.observe(time.perf_counter() - started)
        _rows.observe(len(batch))  # type: ignore[arg-type]
        self._lane.done(batch, result)
        return True
