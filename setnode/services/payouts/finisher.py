"""Records that batches are finished: deletes their intents, and writes for an operator what is stuck."""

import asyncio
from collections.abc import Callable, Sequence

from runtime import logs, metrics, postgres
from runtime.clock import Clock
from setnode.limits import PAY_RETRY_S, SERVICE_DEADLINE_S, STANDBY_EVERY_S
from setnode.services.payouts.intents import finish_intents
from setnode.services.payouts.payout_batch import PayoutBatch

UNREADABLE = "the reason cannot be stored"

_log = logs.get("setnode")
_stuck = metrics.counter("hongbao_payouts_stuck_total", "Orders handed to an operator")


class Finisher:
    """Batches whose orders are all final, until their rows are deleted.

    `holds` says whether an envelope is on this SET. `wake` is called when there is something to write, `deleted` with
    the batches whose rows are gone. A caller that uses `session` must hold `turn`.

    Nothing is written while `waits` says that commits wait for a standby that is gone: the connection of each would be
    dropped at its deadline, Postgres would keep it, and the next try would wait behind its rows.
    """

    def __init__(
        self,
        session: postgres.Session,
        clock: Clock,
        holds: Callable[[int], bool],
        wake: Callable[[], None],
        deleted: Callable[[Sequence[PayoutBatch]], None],
        waits: Callable[[], bool],
    ) -> None:
        self.session = session
        self.turn = asyncio.Lock()
        self._clock = clock
        self._holds = holds
        self._wake = wake
        self._deleted = deleted
        self._waits = waits
        self._again: asyncio.TimerHandle | None = None
        """Wakes the workers once more, because nothing may be written just now."""
        self._batches: list[PayoutBatch] = []

    def __contains__(self, batch: PayoutBatch) -> bool:
        """Say whether the batch waits to be written."""
        return batch in self._batches

    def add(self, batch: PayoutBatch) -> None:
        """Have a batch written by the next `finish`."""
        self._batches.append(batch)
        self._wake()

    def _wake_again(self) -> None:
        self._again = None
        self._wake()

    async def finish(self) -> None:
        """Delete the rows of all finished batches and write what is stuck, in one transaction; repeated if it fails.

        If Postgres does not accept a row, each batch is written alone, so that only its own waits.
        """
        if not self._batches:
            return
        async with self.turn:
            if self._waits():
                if self._again is None:
                    self._again = asyncio.get_running_loop().call_later(STANDBY_EVERY_S, self._wake_again)
                return
            left, self._batches = self._batches, []
            if not left:
                return
            try:
                try:
                    await self._write(left)
                except Exception as error:
                    if not postgres.is_bad_row(error):
                        raise
                    while left:
                        await self._write_alone(left[-1])
                        left.pop()
            except BaseException:
                self._batches.extend(left)
                self._wake()
                raise

    async def _write(self, batches: Sequence[PayoutBatch]) -> None:
        # `holds` is asked again: the wallet's answer may be older than a move.
        stuck = [one for batch in batches for one in batch.stuck if self._holds(one.envelope_id)]
        now = self._clock.now()
        await self.session.run(lambda connection: finish_intents(connection, batches, stuck, now), SERVICE_DEADLINE_S)
        _stuck.inc(len(stuck))
        self._deleted(batches)

    async def _write_alone(self, batch: PayoutBatch) -> None:
        """Write one batch: without its texts if Postgres does not accept them, and later if that does not help."""
        for _ in range(2):
            try:
                await self._write([batch])
            except Exception as error:
                if not postgres.is_bad_row(error):
                    raise
                _log.error("a finished payout batch is not accepted", batch_id=batch.batch_id, error=str(error))
                batch.stuck = [one._replace(reason=UNREADABLE) for one in batch.stuck]
            else:
                return
        asyncio.get_running_loop().call_later(PAY_RETRY_S, self.add, batch)
