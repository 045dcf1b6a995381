"""Bundles of orders and the lines in which they wait for the wallet: new ones, and those it could not answer for.

Orders without an answer wait apart, so that whoever can be paid never stands behind them. What they may hold in memory
is bounded; a bundle that finds no room is let go, and read back from its row in Postgres once it may be tried again.
"""

import asyncio
import random
from collections import OrderedDict, deque
from collections.abc import Collection, Iterable, Sequence
from operator import attrgetter, itemgetter

from runtime import metrics
from setnode.actors.batch import Row
from setnode.limits import PAY_BATCH, PAY_LATER, PAY_UNANSWERED
from wire.messages import PayKind
from wire.orders import payout_order
from wire.wallet import Order

ORDER_PAUSE_S = 60.0
"""Longest pause between two tries of an order that the wallet could not answer for."""

_CLAIM, _REFUND = int(PayKind.CLAIM), int(PayKind.REFUND)
_fen_of, _fen_in, _envelope_of = attrgetter("amount_fen"), itemgetter(-1), attrgetter("envelope_id")

_orders = metrics.gauge("hongbao_payout_orders_unanswered", "Orders in memory that the wallet could not answer for")
_later = metrics.gauge("hongbao_payout_batches_put_off", "Batches with such orders, left in Postgres until their time")


class Bundle:
    """The orders of one committed batch and what has become of them.

    It takes the batch's rows as they are: the orders are made when somebody asks for them. At the commit a hundred
    callers wait for their answer, and a payout can wait.
    """

    __slots__ = ("_orders", "_receivers", "_rows", "_seqs", "attempts", "batch_id", "since", "stuck")

    def __init__(self, batch_id: int, rows: Sequence[Row], receivers: Sequence[str], since: float) -> None:
        self.batch_id = batch_id
        self.since = since
        self.attempts = 0
        self.stuck: list[tuple[int, int, str]] = []
        self._rows = rows
        self._receivers = receivers
        self._orders: list[Order] | None = None
        self._seqs: list[int] = []

    def __len__(self) -> int:
        """Orders that are not final."""
        return len(self._rows if self._orders is None else self._orders)

    @property
    def fen(self) -> int:
        """What they come to."""
        if self._orders is None:
            return sum(map(_fen_in, self._rows))
        return sum(map(_fen_of, self._orders))

    @property
    def envelopes(self) -> set[int]:
        """The envelopes that they pay for."""
        return set(map(_envelope_of, self.orders))

    @property
    def orders(self) -> list[Order]:
        """The orders that are not final."""
        if self._orders is None:
            self._orders = [_order(row, receiver) for row, receiver in zip(self._rows, self._receivers, strict=True)]
            self._seqs = [row[1] for row in self._rows]
            self._rows = self._receivers = ()
        return self._orders

    def lines(self) -> list[tuple[Order, int]]:
        """Return each order that is not final with the seq of its claim."""
        return list(zip(self.orders, self._seqs, strict=True))

    def keep(self, lines: Iterable[tuple[Order, int]]) -> None:
        """Go on with these of them."""
        kept = list(lines)
        self._orders, self._seqs = [order for order, _ in kept], [seq for _, seq in kept]


def _order(row: Row, receiver: str) -> Order:
    envelope_id, seq, _, _, user, fen = row
    return Order(payout_order(envelope_id, seq), _CLAIM if user else _REFUND, receiver, fen, envelope_id)


class Line:
    """Bundles that may be paid now, first in first out.

    `wanted` is set while there are any, `full` while there is enough for a whole call to the wallet: waiting for more
    would gain nothing.
    """

    def __init__(self) -> None:
        self.wanted = asyncio.Event()
        self.full = asyncio.Event()
        self._queue: deque[Bundle] = deque()
        self._orders = 0

    def put(self, bundle: Bundle) -> None:
        """Line up."""
        self._queue.append(bundle)
        self._grown(len(bundle))

    def put_back(self, bundles: Sequence[Bundle]) -> None:
        """Return to the head of the line what was taken and could not be tried."""
        self._queue.extendleft(reversed(bundles))
        self._grown(sum(len(bundle) for bundle in bundles))

    def _grown(self, orders: int) -> None:
        self._orders += orders
        self.wanted.set()
        if self._orders >= PAY_BATCH:
            self.full.set()

    def take(self) -> list[Bundle]:
        """Take as many as fit into one call to the wallet."""
        taken: list[Bundle] = []
        size = 0
        while self._queue and (not taken or size + len(self._queue[0]) <= PAY_BATCH):
            taken.append(self._queue.popleft())
            size += len(taken[-1])
        self._orders -= size
        if not self._queue:
            self.wanted.clear()
        if self._orders < PAY_BATCH:
            self.full.clear()
        return taken


class Unanswered(Line):
    """The line of those that were tried before. Counts what they hold in memory and remembers who was let go."""

    def __init__(self) -> None:
        super().__init__()
        self._sizes: dict[int, int] = {}
        self._put_off: OrderedDict[int, tuple[float, int]] = OrderedDict()
        self.orders = 0

    def __len__(self) -> int:
        """Bundles held in memory, also those that are being tried."""
        return len(self._sizes)

    def keep(self, bundle: Bundle) -> bool:
        """Let a bundle wait for its next try; False when it must be forgotten until then.

        That is when there is no room, or others that were let go have waited longer: nobody keeps a place for ever.
        """
        loop = asyncio.get_running_loop()
        most_s = min(ORDER_PAUSE_S, 0.1 * 2 ** min(bundle.attempts, 12))
        pause_s = random.uniform(most_s / 2, most_s)  # noqa: S311 - no secret
        self.forget(bundle)
        if self.orders + len(bundle) > PAY_UNANSWERED or self._others_wait(loop.time()):
            if len(self._put_off) >= PAY_LATER:
                # It is found again like any other; only how often it was tried is not known any more.
                self._put_off.popitem(last=False)
            self._put_off[bundle.batch_id] = (loop.time() + pause_s, bundle.attempts)
            self._gauge()
            return False
        self._hold(bundle)
        loop.call_later(pause_s, self.put, bundle)
        return True

    def forget(self, bundle: Bundle) -> None:
        """Give up its place: it is final, or let go."""
        self.orders -= self._sizes.pop(bundle.batch_id, 0)
        self._gauge()

    @property
    def put_off(self) -> Collection[int]:
        """The batches let go: nobody else's turn must be spent on them."""
        return self._put_off.keys()

    def due(self, most: int) -> list[int]:
        """Return batches let go whose time has come, if there is room for them."""
        if self.orders >= PAY_UNANSWERED:
            return []
        now = asyncio.get_running_loop().time()
        return [batch_id for batch_id, (again_at, _) in self._put_off.items() if again_at <= now][:most]

    def take_back(self, batch_id: int, bundle: Bundle | None) -> None:
        """Line up a batch that was let go and has been read again; None when its row is gone: somebody paid it."""
        _, attempts = self._put_off.pop(batch_id, (0.0, 1))
        if bundle is not None:
            bundle.attempts = attempts
            self._hold(bundle)
            self.put(bundle)
        self._gauge()

    def _others_wait(self, now: float) -> bool:
        oldest = next(iter(self._put_off.values()), None)
        return oldest is not None and oldest[0] <= now

    def _hold(self, bundle: Bundle) -> None:
        self._sizes[bundle.batch_id] = len(bundle)
        self.orders += len(bundle)
        self._gauge()

    def _gauge(self) -> None:
        _orders.set(self.orders)
        _later.set(len(self._put_off))
