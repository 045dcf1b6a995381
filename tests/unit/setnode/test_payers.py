"""Who pays when: workers for anything, helpers for whole calls alone."""

import asyncio
import contextlib
import time

import pytest

from errors import HongbaoError, Refused, Unavailable
from runtime.clock import SystemClock
from setnode.limits import PAY_WORKERS
from setnode.services.payouts import payer, payout_backlog, payout_queues
from setnode.services.payouts.payer import Payer
from setnode.services.payouts.payout_backlog import PayoutBacklog
from setnode.services.payouts.payout_batch import PayoutBatch
from wire.messages import PAID, PayResult, PayStatus

WHOLE = 20


class Wallet:
    """Writes down how large each call was and answers none: who called stays busy."""

    def __init__(self) -> None:
        self.calls: list[int] = []

    async def pay(self, orders):
        self.calls.append(len(orders))
        await asyncio.Event().wait()


class Session:
    """Stands in for the SET's Postgres, which only deletes rows here."""

    async def run(self, work, deadline_s):
        """Nothing to delete."""


def batch(number: int, size: int) -> PayoutBatch:
    rows = [(2611210000000001007, number * WHOLE + each, 10**6, "open", "u", 1) for each in range(size)]
    return PayoutBatch(number, rows, ["u"] * size, time.monotonic())


@pytest.fixture
def small_calls(monkeypatch):
    monkeypatch.setattr(payout_queues, "PAY_BATCH", WHOLE)


async def calls(wallet: Wallet, *puts: list[int]) -> list[int]:
    """Line up batches of these sizes, one list after the other; return what was called for meanwhile."""
    payouts = PayoutBacklog(Session(), SystemClock(), "s")
    paying = asyncio.ensure_future(Payer(wallet, payouts).run())
    await asyncio.sleep(0)
    number = 0
    for sizes in puts:
        for size in sizes:
            number += 1
            payouts.new.put(batch(number, size))
        for _ in range(10):
            await asyncio.sleep(0)
    paying.cancel()
    await asyncio.gather(paying, return_exceptions=True)
    return wallet.calls


async def test_helpers_come_for_every_whole_call(small_calls, monkeypatch):
    """With all workers busy each whole call finds a helper, however often they were woken in vain."""
    monkeypatch.setattr(payer, "PAY_WORKERS", 0)
    assert await calls(Wallet(), *[[WHOLE]] * 4) == [WHOLE] * 4


async def test_helpers_leave_the_rest_to_the_workers(small_calls, monkeypatch):
    """Less than a whole call waits until a worker is free."""
    monkeypatch.setattr(payer, "PAY_WORKERS", 0)
    assert await calls(Wallet(), [WHOLE // 4] * 5) == [WHOLE]


async def test_workers_take_whatever_there_is(small_calls):
    """A single order waits for nobody."""
    assert await calls(Wallet(), [1]) == [1]


class Returning(Wallet):
    """Answers each call as told: with an error, or None for paid; after the last all are paid, or as it says."""

    def __init__(self, *answers: HongbaoError | None, ever_after: HongbaoError | None = None) -> None:
        super().__init__()
        self.callers: list[asyncio.Task[None] | None] = []
        self._answers = list(answers)
        self._ever_after = ever_after

    async def pay(self, orders):
        self.calls.append(len(orders))
        self.callers.append(asyncio.current_task())
        error = self._answers.pop(0) if self._answers else self._ever_after
        await asyncio.sleep(0)
        if error is not None:
            raise error
        return [(PayStatus.PAID, None)] * len(orders)


AWAY = Unavailable("wallet_unavailable", "wallet is not connected")
SILENT = Unavailable("outcome_unknown", "no answer from wallet in time", outcome_known=False)
BUSY = Unavailable("busy", "the wallet has too much to do")
NO_DATABASE = Unavailable("database_unavailable", "the wallet's database is away")
BROKEN = Unavailable("internal_error", "an unexpected error was logged")


@pytest.fixture
def long_pauses(monkeypatch):
    """Whoever was refused first comes again soon, everybody else in an hour."""
    pauses = iter([0.01])
    monkeypatch.setattr(payer.postgres, "backoff_s", lambda *_, **__: next(pauses, 3600.0))
    monkeypatch.setattr(payer, "PAY_HELPERS", 0)
    monkeypatch.setattr(payer, "PAY_GATHER_S", 0.0)


@contextlib.asynccontextmanager
async def backlog(wallet: Wallet, calls: int):
    """Line up so many whole calls and let the workers have the block's time with them."""
    payouts = PayoutBacklog(Session(), SystemClock(), "s")
    for number in range(calls):
        payouts._hold(batch(number, WHOLE))
        payouts.new.put(batch(number, WHOLE))
    paying = asyncio.ensure_future(Payer(wallet, payouts).run())
    async with asyncio.timeout(30):
        yield payouts
    paying.cancel()
    await asyncio.gather(paying, return_exceptions=True)


async def all_paid(payouts: PayoutBacklog) -> None:
    while payouts.unpaid_fen:
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("error", [AWAY, SILENT])
async def test_a_wallet_that_is_back_has_all_workers_at_once(small_calls, long_pauses, error):
    """All four met it away; the first that is paid ends the pause of the others, not only its own."""
    wallet = Returning(*[error] * PAY_WORKERS)
    async with backlog(wallet, 20) as payouts:
        await all_paid(payouts)
    assert len(wallet.calls) == PAY_WORKERS + 20
    assert len(set(wallet.callers[PAY_WORKERS:])) == PAY_WORKERS


@pytest.mark.parametrize("error", [BUSY, NO_DATABASE])
async def test_who_was_answered_with_an_error_keeps_to_his_pause(small_calls, long_pauses, error):
    """Who is told `busy`, or that the database is away, does not come again because others are paid."""
    wallet = Returning(*[error] * PAY_WORKERS)
    async with backlog(wallet, 20) as payouts:
        await all_paid(payouts)
    assert len(set(wallet.callers[PAY_WORKERS:])) == 1


async def test_a_wallet_that_goes_away_is_left_alone(small_calls, long_pauses):
    """Paid once, then away for good: every worker tries it, the first to wake once more, and then all wait."""
    wallet = Returning(None, ever_after=AWAY)
    async with backlog(wallet, 20) as payouts:
        while len(wallet.calls) < 1 + PAY_WORKERS:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
    assert len(wallet.calls) <= 2 + PAY_WORKERS
    assert payouts.unpaid_fen == 19 * WHOLE


class Stumbling(Returning):
    """Fails as a whole whenever it is asked for one of these seqs, and pays all other orders."""

    def __init__(self, error: Exception, *seqs: int) -> None:
        super().__init__()
        self.error = error
        self.bad = {f"2611210000000001007.{seq}" for seq in seqs}
        self.paid: set[str] = set()

    async def pay(self, orders):
        self.calls.append(len(orders))
        await asyncio.sleep(0)
        if any(order.order_no in self.bad for order in orders):
            raise self.error
        self.paid.update(order.order_no for order in orders)
        return [PAID] * len(orders)


@pytest.mark.parametrize("error", [BROKEN, Refused("malformed_request", "cannot read this")])
async def test_an_order_that_the_wallet_cannot_read_is_set_apart(small_calls, long_pauses, monkeypatch, error):
    """Its call is repeated in halves: all others of its batch and of later ones are paid, it alone is retried."""
    monkeypatch.setattr(payout_backlog, "PAY_ATTEMPTS", 3)
    monkeypatch.setattr(payout_queues, "PAY_RETRY_S", 0.01)
    wallet = Stumbling(error, 7, 23)
    async with backlog(wallet, 4) as payouts:
        await all_paid(payouts)
    assert len(wallet.paid) == 4 * WHOLE - 2
    assert not wallet.paid & wallet.bad
    assert len(wallet.calls) < 80


async def test_an_order_is_given_up_after_exactly_so_many_tries(small_calls, long_pauses, monkeypatch):
    """PAY_ATTEMPTS tries and no more; an order refused at the first is stored with one try, not with its batch's."""
    monkeypatch.setattr(payout_backlog, "PAY_ATTEMPTS", 3)
    monkeypatch.setattr(payout_queues, "PAY_RETRY_S", 0.01)
    stuck = {}

    class Deciding(Returning):
        tries = 0

        async def pay(self, orders):
            await asyncio.sleep(0)
            self.tries += any(order.order_no.endswith(".1") for order in orders)
            return [
                PayResult(PayStatus.REFUSED, "closed") if order.order_no.endswith(".0")
                else PayResult(PayStatus.UNKNOWN, "no answer") if order.order_no.endswith(".1") else PAID
                for order in orders
            ]  # fmt: skip

    class Noting(Session):
        async def run(self, work, deadline_s):
            class Connection:
                async def execute(self, _, batch_ids, envelopes, seqs, reasons, attempts, amounts, receivers, *refunds):
                    stuck.update(zip(seqs, zip(attempts, amounts, strict=True), strict=True))

            await work(Connection())

    wallet = Deciding()
    async with backlog(wallet, 0) as payouts:
        payouts.finisher.session = Noting()
        whole = PayoutBatch(1, [(2611210000000001007, seq, 9, "open", "u", 5) for seq in range(3)], ["u"] * 3, 0.0)
        payouts._hold(whole)
        payouts.new.put(whole)
        while len(stuck) < 2:
            await asyncio.sleep(0.01)
    assert stuck == {0: (1, 5), 1: (3, 5)}
    assert wallet.tries == 3


async def test_a_fault_of_ours_in_one_batch_does_not_end_the_payer(small_calls, long_pauses):
    """An exception that nobody expected leaves the batch to Postgres; the next one is paid."""

    class Faulty(Returning):
        async def pay(self, orders):
            if not self.calls:
                self.calls.append(0)
                raise ZeroDivisionError
            return await super().pay(orders)

    async with backlog(Faulty(), 2) as payouts:
        await all_paid(payouts)
        assert payouts._overflow
