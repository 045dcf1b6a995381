"""Who pays when: workers for anything, helpers for whole calls alone."""

import asyncio
import time

import pytest

from envelope.errors import HongbaoError, Unavailable
from runtime.clock import SystemClock
from setnode.limits import PAY_WORKERS
from setnode.rounds import bundles, payout
from setnode.rounds.bundles import Bundle
from setnode.rounds.payout import Payouts
from wire.messages import Pay

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

    async def patiently(self, work, limit_s):
        """Nothing to delete."""


def bundle(number: int, size: int) -> Bundle:
    rows = [(2611210000000001007, number * WHOLE + each, 10**6, "open", "u", 1) for each in range(size)]
    return Bundle(number, rows, ["u"] * size, time.monotonic())


@pytest.fixture
def small_calls(monkeypatch):
    monkeypatch.setattr(bundles, "PAY_BATCH", WHOLE)


async def calls(wallet: Wallet, *puts: list[int]) -> list[int]:
    """Line up bundles of these sizes, one list after the other; return what was called for meanwhile."""
    payouts = Payouts(wallet, Session(), SystemClock(), "s")
    paying = asyncio.ensure_future(payouts.run())
    await asyncio.sleep(0)
    number = 0
    for sizes in puts:
        for size in sizes:
            number += 1
            payouts._new.put(bundle(number, size))
        for _ in range(10):
            await asyncio.sleep(0)
    paying.cancel()
    await asyncio.gather(paying, return_exceptions=True)
    return wallet.calls


async def test_helpers_come_for_every_whole_call(small_calls, monkeypatch):
    """With all workers busy each whole call finds a helper, however often they were woken in vain."""
    monkeypatch.setattr(payout, "PAY_WORKERS", 0)
    assert await calls(Wallet(), *[[WHOLE]] * 4) == [WHOLE] * 4


async def test_helpers_leave_the_rest_to_the_workers(small_calls, monkeypatch):
    """Less than a whole call waits until a worker is free."""
    monkeypatch.setattr(payout, "PAY_WORKERS", 0)
    assert await calls(Wallet(), [WHOLE // 4] * 5) == [WHOLE]


async def test_workers_take_whatever_there_is(small_calls):
    """A single order waits for nobody."""
    assert await calls(Wallet(), [1]) == [1]


class Returning(Wallet):
    """Fails the first calls as told, and answers all later ones."""

    def __init__(self, *errors: HongbaoError) -> None:
        super().__init__()
        self.callers: list[asyncio.Task[None] | None] = []
        self._errors = list(errors)

    async def pay(self, orders):
        self.calls.append(len(orders))
        self.callers.append(asyncio.current_task())
        await asyncio.sleep(0)
        if self._errors:
            raise self._errors.pop(0)
        return [(Pay.PAID, None)] * len(orders)


@pytest.fixture
def long_pauses(monkeypatch):
    """Whoever was refused first comes again soon, everybody else in an hour."""
    pauses = iter([0.01])
    monkeypatch.setattr(payout.postgres, "backoff_s", lambda *_, **__: next(pauses, 3600.0))
    monkeypatch.setattr(payout, "PAY_HELPERS", 0)
    monkeypatch.setattr(payout, "PAY_GATHER_S", 0.0)


async def backlog(wallet: Wallet, calls: int) -> Payouts:
    """Line up a backlog of whole calls and let the workers have their time with it."""
    payouts = Payouts(wallet, Session(), SystemClock(), "s")
    for number in range(calls):
        payouts._hold(bundle(number, WHOLE))
        payouts._new.put(bundle(number, WHOLE))
    paying = asyncio.ensure_future(payouts.run())
    await asyncio.sleep(0.2)
    paying.cancel()
    await asyncio.gather(paying, return_exceptions=True)
    return payouts


async def test_a_wallet_that_is_back_has_all_workers_at_once(small_calls, long_pauses):
    """All four met it away; the first that is answered ends the pause of the others, not only its own."""
    away = Unavailable("peer_down", "wallet is not connected")
    wallet = Returning(*[away] * PAY_WORKERS)
    payouts = await backlog(wallet, 20)
    assert payouts.unpaid_fen == 0
    assert len(wallet.calls) == PAY_WORKERS + 20
    assert len(set(wallet.callers[PAY_WORKERS:])) == PAY_WORKERS


async def test_a_busy_wallet_is_left_alone_for_the_whole_pause(small_calls, long_pauses):
    """Who is told `busy` does not come again because others are answered: they are what it is busy with."""
    busy = Unavailable("busy", "the wallet has too much to do")
    wallet = Returning(*[busy] * PAY_WORKERS)
    payouts = await backlog(wallet, 20)
    assert payouts.unpaid_fen == 0
    assert len(set(wallet.callers[PAY_WORKERS:])) == 1
