"""Payouts through a provider outside, which is a process of its own and keeps its own count of real payments."""

import asyncio
import sys
from pathlib import Path

import aiohttp
import pytest

from tests.funds import fund_request
from tests.integration.wallet.fixtures import ENVELOPE, claim, ledger_rows, refund, running, wallet, wallet_database
from wallet.limits import MAX_AMOUNT_FEN, REASON_CHARS
from wallet.provider import Provider
from wallet.provider_channel import ProviderChannel
from wire.messages import PayStatus

__all__ = ["ledger_rows", "wallet", "wallet_database"]
PAID = (PayStatus.PAID, None)
PROGRAM = Path(__file__).parents[2] / "faults" / "provider.py"


@pytest.fixture
async def provider():
    """URL of a fresh provider process."""
    process = await asyncio.create_subprocess_exec(sys.executable, str(PROGRAM), stdout=asyncio.subprocess.PIPE)
    port = int(await process.stdout.readline())
    yield f"http://127.0.0.1:{port}"
    process.kill()
    await process.wait()


@pytest.fixture
async def http():
    async with aiohttp.ClientSession() as session:
        yield session


async def payments(http, provider):
    async with http.get(provider + "/counts") as response:
        return await response.json()


def channel_of(wallet, http, provider):
    return ProviderChannel(wallet.batcher, wallet.readers, Provider(http, provider))


async def fund(wallet, total_fen=1000):
    await wallet.give("ann", total_fen)
    await wallet.batcher.submit(fund_request("k", "f", "ann", total_fen, ENVELOPE))


async def settle(channel, orders):
    """Repeat as a SET does until every order is final."""
    results = {}
    for _ in range(10):
        left = [order for order in orders if order.order_no not in results]
        if not left:
            break
        for order, (status, reason) in zip(left, await channel.pay(left), strict=True):
            if status != PayStatus.UNKNOWN:
                results[order.order_no] = (status, reason)
    return [results[order.order_no] for order in orders]


async def test_every_bad_habit_of_a_provider_ends_in_one_payment(wallet, ledger_rows, http, provider):
    """Slow, lost, failing before and after the work, pending, garbled, mixed up: each order is really paid once."""
    await fund(wallet)
    habits = ["plain", "slow", "lost", "late_error", "early_error", "pending", "garbage", "twice"]
    orders = [claim(seq, f"{habits[seq % len(habits)]}_{seq}", 10) for seq in range(2 * len(habits))]
    channel = channel_of(wallet, http, provider)
    assert await settle(channel, orders) == [PAID] * len(orders)
    assert await payments(http, provider) == {order.order_no: 1 for order in orders}
    outside = await ledger_rows.fetchval("SELECT balance_fen FROM account WHERE name = 'channel:provider'")
    assert outside == 10 * len(orders)
    assert await settle(channel, orders) == [PAID] * len(orders)
    assert set((await payments(http, provider)).values()) == {1}


async def test_a_refusal_is_final_and_books_nothing(wallet, ledger_rows, http, provider):
    """The provider's reason comes back at every repeat, and the money stays in escrow."""
    await fund(wallet)
    channel = channel_of(wallet, http, provider)
    for _ in range(3):
        assert await channel.pay([claim(0, "refuse_bob", 10)]) == [(PayStatus.REFUSED, "account_closed")]
    assert await wallet.history.escrow_total() == 1000
    assert await ledger_rows.fetchval("SELECT count(*) FROM transfer WHERE kind = 2") == 0


async def test_a_refusal_comes_in_words_that_can_be_stored(wallet, ledger_rows, http, provider):
    """Whatever the provider writes as its reason is final, short, and without what no database or log takes."""
    await fund(wallet)
    channel = channel_of(wallet, http, provider)
    [(status, reason)] = await channel.pay([claim(0, "rude_bob", 10)])
    assert (status, len(reason)) == (PayStatus.REFUSED, REASON_CHARS)
    assert reason.startswith("no?money??[2J?x")
    assert await ledger_rows.fetchval("SELECT $1::text", reason) == reason


async def test_nothing_is_ordered_outside_that_cannot_be_booked(wallet, ledger_rows, http, provider):
    """Without money in escrow, or under a number of another payment, the provider is not asked at all."""
    await fund(wallet, 10)
    channel = channel_of(wallet, http, provider)
    orders = [claim(0, "bob", 10), claim(1, "cid", MAX_AMOUNT_FEN)]
    assert await channel.pay(orders) == [PAID, (PayStatus.REFUSED, "fund_exceeded")]
    assert await channel.pay([claim(0, "cid", 10)]) == [(PayStatus.REFUSED, "order_conflict")]
    assert await payments(http, provider) == {orders[0].order_no: 1}


async def test_two_at_once_order_outside_once(wallet, ledger_rows, http, provider):
    """The same orders asked for by many callers at once, and twice in one list, are paid once each."""
    await fund(wallet)
    channel = channel_of(wallet, http, provider)
    orders = [claim(seq, f"slow_{seq}", 10) for seq in range(5)]
    await asyncio.gather(*(channel.pay([*orders, *orders]) for _ in range(8)))
    assert await settle(channel, orders) == [PAID] * 5
    assert await payments(http, provider) == {order.order_no: 1 for order in orders}


async def test_a_wallet_that_died_between_paying_and_booking_books_later(wallet_database, ledger_rows, http, provider):
    """Paid outside by a wallet that is gone: the next one asks, finds it, and only books."""
    order = claim(0, "bob", 10)
    async with running(wallet_database) as wallet:
        await fund(wallet)
        assert await Provider(http, provider).pay(order) == PAID
    async with running(wallet_database) as wallet:
        assert await channel_of(wallet, http, provider).pay([order]) == [PAID]
        entries = await wallet.history.entries("bob", 0, 10)
        assert [row[1:4] for row in entries] == [[order.order_no, "claim_outside", 10]]
        assert await wallet.history.balance("bob") == 0
    assert await payments(http, provider) == {order.order_no: 1}


async def test_a_provider_that_is_away_leaves_the_order_open(wallet, ledger_rows, http):
    """Nobody listens: UNKNOWN, nothing booked; and refunds, which need no provider, are paid beside it."""
    await fund(wallet)
    channel = channel_of(wallet, http, "http://127.0.0.1:9")
    results = await channel.pay([claim(0, "bob", 10), refund(1, "ann", 90)])
    assert results == [(PayStatus.UNKNOWN, "provider_in_doubt"), PAID]
    assert await wallet.history.balance("ann") == 90


@pytest.mark.parametrize("answer", [b'{"order_no":"x","status":"refused","reason":"gel\xf6scht"}', b"[" * 4_000])
async def test_an_answer_that_nobody_can_read_is_in_doubt_alone(wallet, http, provider, monkeypatch, answer):
    """In Latin-1, or nested for ever: the others of its PAY are paid and booked."""
    await fund(wallet)
    channel = channel_of(wallet, http, provider)
    call = channel._provider._call

    async def garbled(method, url, body):
        return (200, answer) if url.endswith(claim(1, "eve", 100).order_no) else await call(method, url, body)

    monkeypatch.setattr(channel._provider, "_call", garbled)
    results = await channel.pay([claim(0, "bob", 100), claim(1, "eve", 100)])
    assert results == [PAID, (PayStatus.UNKNOWN, "provider_in_doubt")]
    assert await channel.pay([claim(0, "bob", 100)]) == [PAID]


async def test_a_fault_with_one_order_leaves_the_others_booked(wallet, http, provider, monkeypatch):
    await fund(wallet)
    channel = channel_of(wallet, http, provider)
    pay = channel._provider.pay

    async def faulty(order):
        if order.user == "eve":
            raise ZeroDivisionError
        return await pay(order)

    monkeypatch.setattr(channel._provider, "pay", faulty)
    results = await channel.pay([claim(0, "bob", 100), claim(1, "eve", 100)])
    assert results == [PAID, (PayStatus.UNKNOWN, "provider_in_doubt")]


async def test_a_repeat_beside_the_booking_is_not_refused(wallet, http, provider):
    """The last share is booked by the first PAY while its repeat reads: there is no money left, because it is paid."""
    await fund(wallet, 100)
    order, reading, booked = claim(0, "bob", 100), asyncio.Event(), asyncio.Event()

    class Slow:
        """The repeat's reader: its first answer takes until the first PAY is booked."""

        async def fetch(self, query, *args):
            rows = await wallet.readers.fetch(query, *args)
            if not reading.is_set():
                reading.set()
                await booked.wait()
            return rows

    again = asyncio.create_task(ProviderChannel(wallet.batcher, Slow(), Provider(http, provider)).pay([order]))
    await reading.wait()
    assert await channel_of(wallet, http, provider).pay([order]) == [PAID]
    booked.set()
    assert await again == [PAID]
