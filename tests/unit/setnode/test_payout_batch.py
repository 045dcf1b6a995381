"""The orders of a committed batch, made when somebody asks for them."""

from setnode.services.payouts import payout_queues
from setnode.services.payouts.payout_batch import PayoutBatch
from wire.messages import PayKind
from wire.wallet import Order

FIRST, SECOND = 2611220000000001007, 2611220000000002008
ROWS = [
    (FIRST, 0, 3, "open", "ann", 120),
    (SECOND, 5, 9, "open", "bob", 30),
    (FIRST, 1, 3, "expired", "", 50),
]
RECEIVERS = ["ann", "bob", "sender"]
ORDERS = [
    Order(f"{FIRST}.0", PayKind.CLAIM, "ann", 120, FIRST),
    Order(f"{SECOND}.5", PayKind.CLAIM, "bob", 30, SECOND),
    Order(f"{FIRST}.1", PayKind.REFUND, "sender", 50, FIRST),
]


def batch() -> PayoutBatch:
    return PayoutBatch(7, ROWS, RECEIVERS, since=1.0)


def test_each_claim_is_an_order_and_a_closing_entry_a_refund() -> None:
    """Order number, kind, receiver, money and envelope of each follow from its row."""
    assert batch().orders == ORDERS
    assert batch().orders_with_seqs() == list(zip(ORDERS, [0, 5, 1], strict=True))


def test_number_and_money_are_known_before_the_orders_are_made() -> None:
    """And are the same afterwards."""
    one = batch()
    assert (len(one), one.fen) == (3, 200)
    assert one.orders
    assert (len(one), one.fen) == (3, 200)


def test_what_is_kept_is_all_that_is_left() -> None:
    """Made or not: after some orders are final only the others count."""
    for made in (False, True):
        one = batch()
        assert not made or one.orders
        one.keep(line for line in one.orders_with_seqs() if line[0].envelope_id == FIRST)
        assert one.orders == [ORDERS[0], ORDERS[2]]
        assert [seq for _, seq in one.orders_with_seqs()] == [0, 1]
        assert (len(one), one.fen) == (2, 170)
        one.keep([])
        assert (len(one), one.fen, one.orders, one.orders_with_seqs()) == (0, 0, [], [])


def test_a_line_is_full_while_it_fills_a_call(monkeypatch) -> None:
    """Helpers wake for a whole call and not for less, also for what was put back; everybody else for anything."""
    monkeypatch.setattr(payout_queues, "PAY_BATCH", 6)
    queue = payout_queues.PayoutQueue()
    seen = []
    for step in (lambda: queue.put(batch()), lambda: queue.put(batch()), lambda: queue.put(batch()), queue.take):
        step()
        seen.append((queue.nonempty.is_set(), queue.full.is_set()))
    assert seen == [(True, False), (True, True), (True, True), (True, False)]
    rest = queue.take()
    assert (len(rest), queue.nonempty.is_set(), queue.full.is_set()) == (1, False, False)
    queue.put_back([*rest, batch()])
    assert (queue.nonempty.is_set(), queue.full.is_set()) == (True, True)
