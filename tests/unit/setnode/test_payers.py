"""Who pays when: workers for anything, helpers for whole calls alone."""

import asyncio
import time

import pytest

from runtime.clock import SystemClock
from setnode.rounds import bundles, payout
from setnode.rounds.bundles import Bundle
from setnode.rounds.payout import Payouts

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
