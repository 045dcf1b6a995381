"""The queues in which payout batches wait for a call to the wallet: new ones, and those to be retried.

Batches to be retried have a queue of their own, so that new batches never wait behind them. Their orders in memory are
bounded: a batch that finds no space is spilled, that is, only its time of retry is remembered, and it is read back from
its row in Postgres at that time.
"""

import asyncio
import random
from collections import OrderedDict, deque
from collections.abc import Collection, Sequence

from runtime import metrics
from setnode.limits import PAY_BATCH, PAY_DOUBLINGS, PAY_FIRST_RETRY_S, PAY_RETRY_ORDERS, PAY_RETRY_S, PAY_SPILLED
from setnode.services.payouts.payout_batch import PayoutBatch

_retry_orders = metrics.gauge(
    "hongbao_payout_orders_unanswered", "Orders in memory that the wallet could not answer for"
)
_spilled = metrics.gauge(
    "hongbao_payout_batches_put_off", "Batches with such orders, left in Postgres until their time"
)


class PayoutQueue:
    """Batches that may be paid now, first in first out.

    `nonempty` is set while there are any, `full` while there are orders for a whole call to the wallet.
    """

    def __init__(self) -> None:
        self.nonempty = asyncio.Event()
        self.full = asyncio.Event()
        self._queue: deque[PayoutBatch] = deque()
        self._orders = 0

    def put(self, batch: PayoutBatch) -> None:
        """Append a batch."""
        self._queue.append(batch)
        self._add_orders(len(batch))

    def put_back(self, batches: Sequence[PayoutBatch]) -> None:
        """Return batches that were taken and could not be sent to the head of the queue."""
        self._queue.extendleft(reversed(batches))
        self._add_orders(sum(len(batch) for batch in batches))

    def take(self) -> list[PayoutBatch]:
        """Take as many batches as fit into one call to the wallet, at least one if there is any."""
        taken: list[PayoutBatch] = []
        size = 0
        while self._queue and (not taken or size + len(self._queue[0]) <= PAY_BATCH):
            taken.append(self._queue.popleft())
            size += len(taken[-1])
        self._orders -= size
        if not self._queue:
            self.nonempty.clear()
        if self._orders < PAY_BATCH:
            self.full.clear()
        return taken

    def _add_orders(self, orders: int) -> None:
        self._orders += orders
        self.nonempty.set()
        if self._orders >= PAY_BATCH:
            self.full.set()


class RetryQueue(PayoutQueue):
    """Batches with orders that got no final result; `take` returns those whose time of retry has come.

    `orders` counts the orders held in memory, including those in a call to the wallet.
    """

    def __init__(self) -> None:
        super().__init__()
        self._sizes: dict[int, int] = {}
        self._spilled: OrderedDict[int, tuple[float, int]] = OrderedDict()
        """By batch: when it may be retried (loop time), and its attempts so far."""
        self.orders = 0

    def __len__(self) -> int:
        """Batches held in memory, including those in a call to the wallet."""
        return len(self._sizes)

    def keep(self, batch: PayoutBatch) -> bool:
        """Keep a batch in memory until its retry; False if it was spilled and the caller must drop it.

        It is spilled if there is no space, or if the oldest spilled batch is past its time of retry: so no batch keeps
        its place for ever while others are not retried.
        """
        loop = asyncio.get_running_loop()
        most_s = min(PAY_RETRY_S, PAY_FIRST_RETRY_S * 2 ** min(batch.attempts, PAY_DOUBLINGS))
        pause_s = random.uniform(most_s / 2, most_s)  # noqa: S311 - no secret
        self.forget(batch)
        if self.orders + len(batch) > PAY_RETRY_ORDERS or self._spilled_is_due(loop.time()):
            if len(self._spilled) >= PAY_SPILLED:
                # The oldest is found like any batch that is not in memory; only its attempts are forgotten.
                self._spilled.popitem(last=False)
            self._spilled[batch.batch_id] = (loop.time() + pause_s, batch.attempts)
            self._publish()
            return False
        self._hold(batch)
        loop.call_later(pause_s, self.put, batch)
        return True

    def forget(self, batch: PayoutBatch) -> None:
        """Free the space of a batch in memory; does nothing if it holds none."""
        self.orders -= self._sizes.pop(batch.batch_id, 0)
        self._publish()

    @property
    def spilled(self) -> Collection[int]:
        """The spilled batches; reading back new ones must leave them out."""
        return self._spilled.keys()

    def due(self, most: int) -> list[int]:
        """Return up to `most` spilled batches whose time of retry has come; none while there is no space for them."""
        if self.orders >= PAY_RETRY_ORDERS:
            return []
        now = asyncio.get_running_loop().time()
        return [batch_id for batch_id, (again_at, _) in self._spilled.items() if again_at <= now][:most]

    def restore(self, batch_id: int, batch: PayoutBatch | None) -> None:
        """Enqueue a spilled batch that was read back; `batch` is None if its row is gone: another payer finished it."""
        _, attempts = self._spilled.pop(batch_id, (0.0, 1))
        if batch is not None:
            batch.attempts = attempts
            self._hold(batch)
            self.put(batch)
        self._publish()

    def _spilled_is_due(self, now: float) -> bool:
        oldest = next(iter(self._spilled.values()), None)
        return oldest is not None and oldest[0] <= now

    def _hold(self, batch: PayoutBatch) -> None:
        self._sizes[batch.batch_id] = len(batch)
        self.orders += len(batch)
        self._publish()

    def _publish(self) -> None:
        _retry_orders.set(self.orders)
        _spilled.set(len(self._spilled))
