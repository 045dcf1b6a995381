"""The payout orders of one committed batch."""

from collections.abc import Iterable, Sequence
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, NamedTuple

from envelope.outcomes import Entry
from setnode.actors.batch import Row
from wire.messages import PayKind, PayResult, PayStatus
from wire.orders import payout_order
from wire.wallet import Order

if TYPE_CHECKING:
    from runtime.traces.context import TraceContext

_CLAIM, _REFUND = int(PayKind.CLAIM), int(PayKind.REFUND)
_UNDONE = Entry.UNDONE.value
_fen_of, _fen_in, _envelope_of = attrgetter("amount_fen"), itemgetter(-1), attrgetter("envelope_id")


class StuckOrder(NamedTuple):
    """An order that is given up, for an operator: `attempts` are the tries of this order, the last one included."""

    envelope_id: int
    seq: int
    reason: str
    attempts: int
    amount_fen: int
    receiver: str


class PaidRefund(NamedTuple):
    """What was left in an envelope, paid back to its sender."""

    envelope_id: int
    seq: int
    amount_fen: int
    receiver: str


class PayoutBatch:
    """The orders of one committed batch that are not final, and what is known of their results.

    It takes the batch's rows as they are; orders are made on first use, because right after the commit the replies to
    clients come first. `attempts` counts the calls that left orders without a final result; `since` is when the batch
    came into memory (monotonic); `stuck` are its orders to be written for an operator, `refunds` those of which
    sinks of events are told.
    """

    __slots__ = (
        "_closings", "_orders", "_receivers", "_rows", "_seqs", "attempts", "batch_id", "refunds", "since", "stuck",
        "traced",
    )  # fmt: skip

    def __init__(self, batch_id: int, rows: Sequence[Row], receivers: Sequence[str], since: float) -> None:
        self.batch_id = batch_id
        self.since = since
        self.attempts = 0
        self.stuck: list[StuckOrder] = []
        self.refunds: list[PaidRefund] = []
        self.traced: Sequence[TraceContext] = ()
        """Spans that the payment of its claims belongs to, of the claims that are traced; lost when it is read back."""
        self._closings: frozenset[int] = frozenset()
        self._rows = rows
        self._receivers = receivers
        self._orders: list[Order] | None = None
        self._seqs: list[int] = []

    def __len__(self) -> int:
        """Orders that are not final."""
        return len(self._rows if self._orders is None else self._orders)

    @property
    def fen(self) -> int:
        """The sum of the orders that are not final."""
        if self._orders is None:
            return sum(map(_fen_in, self._rows))
        return sum(map(_fen_of, self._orders))

    @property
    def envelopes(self) -> set[int]:
        """The envelopes that the orders pay for."""
        return set(map(_envelope_of, self.orders))

    @property
    def orders(self) -> list[Order]:
        """The orders that are not final."""
        if self._orders is None:
            self._orders = [_order(row, receiver) for row, receiver in zip(self._rows, self._receivers, strict=True)]
            self._seqs = [row[1] for row in self._rows]
            closings = [row for row in self._rows if not row[4]]
            self._closings = frozenset(row[0] for row in closings if row[3] != _UNDONE)
            self._rows = self._receivers = ()
        return self._orders

    def orders_with_seqs(self) -> list[tuple[Order, int]]:
        """Return each order that is not final with the seq of its claim."""
        return list(zip(self.orders, self._seqs, strict=True))

    def note_refunds(self, results: Sequence[PayResult]) -> None:
        """Note which refunds were paid by the call that returned `results`, one for each order that was not final.

        Not those of creates that died half way: their envelopes never were.
        """
        if not self._closings:
            return
        for (order, seq), result in zip(self.orders_with_seqs(), results, strict=True):
            if result.status is PayStatus.PAID and order.kind == _REFUND and order.envelope_id in self._closings:
                self.refunds.append(PaidRefund(order.envelope_id, seq, order.amount_fen, order.user))

    def keep(self, orders_with_seqs: Iterable[tuple[Order, int]]) -> None:
        """Keep only these of its orders: the ones that are still not final."""
        kept = list(orders_with_seqs)
        self._orders, self._seqs = [order for order, _ in kept], [seq for _, seq in kept]


def _order(row: Row, receiver: str) -> Order:
    envelope_id, seq, _, _, user, fen = row
    return Order(payout_order(envelope_id, seq), _CLAIM if user else _REFUND, receiver, fen, envelope_id)
