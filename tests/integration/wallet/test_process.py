"""The wallet as a process: its link, its probes, its stop, and what a kill -9 leaves behind."""

import asyncio
import os
import signal
import socket
import sys

import aiohttp
import pytest

from errors import Refused, Unavailable
from tests.funds import HEADER
from tests.integration.wallet.fixtures import ENVELOPE, ledger_rows, wallet_database
from tests.link_keys import accepts
from tests.wallet_client import wallet_client
from wire.messages import FundStatus, PayKind, PayStatus
from wire.orders import payout_order
from wire.wallet import Order

__all__ = ["ledger_rows", "wallet_database"]
PAID = (PayStatus.PAID, None)


class Process:
    """A wallet process and a client connected to it."""

    def __init__(self, dsn: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._environ = {
            **os.environ,
            "HONGBAO_LISTEN": f"127.0.0.1:{self.port}",
            "HONGBAO_POSTGRES_DSN": dsn,
            "HONGBAO_ACCEPT_KEYS": accepts("wallet"),
        }

    async def start(self) -> None:
        self.process = await asyncio.create_subprocess_exec(sys.executable, "-m", "wallet", env=self._environ)

    async def end(self, number: int) -> int:
        self.process.send_signal(number)
        return await self.process.wait()


@pytest.fixture
async def process(wallet_database):
    one = Process(wallet_database)
    await one.start()
    yield one
    if one.process.returncode is None:
        await one.end(signal.SIGKILL)


@pytest.fixture
async def client(process):
    async with wallet_client(process.url) as one:
        yield one


async def _until(holds) -> None:
    async with asyncio.timeout(20):
        while not holds():
            await asyncio.sleep(0.01)


def claims(count, per=1):
    return [Order(payout_order(ENVELOPE, seq), PayKind.CLAIM, f"u{seq % 97}", per, ENVELOPE) for seq in range(count)]


async def test_every_operation_over_the_link(process, client, ledger_rows):
    """Deposit, fund, pay, and all reads answer as the client promises."""
    assert await client.deposit("d", "ann", 500) == 500
    assert await client.fund("k", "f", "ann", 100, ENVELOPE, HEADER, b"draft") == [FundStatus.DONE, ENVELOPE, b""]
    assert await client.fund("k", "f", "ann", 100, ENVELOPE + 1000, HEADER, b"") == [
        FundStatus.REPLAYED,
        ENVELOPE,
        b"draft",
    ]
    assert await client.pay(claims(3)) == [PAID] * 3
    assert await client.pay([]) == []
    assert await client.balance("ann") == 400
    assert await client.balance("nobody") == 0
    assert [row[2:5] for row in await client.entries("u1", 0, 10)] == [["claim", 1, ENVELOPE]]
    assert [row[1:3] for row in await client.envelopes("ann", "sent", 0, 10)] == [[ENVELOPE, 100]]
    assert [row[1:] for row in await client.funds(0, 2**52, 10)] == [(ENVELOPE, "ann", 100)]


async def test_what_makes_no_sense_is_refused_and_hurts_nobody(process, client, ledger_rows):
    """Malformed calls are the caller's fault, each alone."""
    calls = [
        client.deposit("d", "ann", -1),
        client.envelopes("ann", "both", 0, 10),
        client.pay([Order("n", PayKind.CLAIM, "a\0", 1, ENVELOPE)]),
        client.deposit("e", "ann", 1),
    ]
    *wrong, right = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(each, Refused) and each.code == "malformed_request" for each in wrong)
    assert right == 1


async def test_probes_metrics_and_the_key(process, client, ledger_rows):
    """Ready with a ledger, counted transfers, and no link without the key."""
    await client.deposit("d", "ann", 500)
    async with aiohttp.ClientSession() as http:
        async with http.get(process.url + "/readyz") as response:
            assert response.status == 200
        async with http.get(process.url + "/metrics") as response:
            assert 'hongbao_wallet_transfers_total{kind="deposit",result="done"} 1.0' in await response.text()
        with pytest.raises(aiohttp.WSServerHandshakeError, match="401"):
            await http.ws_connect(process.url + "/link", headers={"Authorization": "Link wrong"})


async def _pay_until_done(client, orders):
    while True:
        try:
            return await client.pay(orders)
        except Unavailable:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
async def test_a_process_that_ends_under_load_pays_every_order_once(process, client, ledger_rows, number):
    """Ended in the middle of 10,000 payouts and started again: callers repeat, 10,000 credits, none twice."""
    orders = claims(10_000)
    await client.deposit("d", "ann", len(orders))
    await client.fund("k", "f", "ann", len(orders), ENVELOPE, HEADER, b"")
    paying = [asyncio.ensure_future(_pay_until_done(client, orders[i : i + 250])) for i in range(0, 10_000, 250)]
    await _until(lambda: any(each.done() for each in paying))
    assert await process.end(number) == (0 if number == signal.SIGTERM else -signal.SIGKILL)
    await process.start()
    results = await asyncio.gather(*paying)
    assert all(result == PAID for part in results for result in part)
    assert await ledger_rows.fetchval("SELECT count(*) FROM transfer WHERE kind = 2") == 10_000
