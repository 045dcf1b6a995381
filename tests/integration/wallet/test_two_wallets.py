"""Two wallet processes at one name, on hosts of their own: either may be lost, and both may pay at once."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from errors import Unavailable
from tests.funds import HEADER
from tests.integration.wallet.fixtures import ENVELOPE, ledger_rows, wallet_database
from tests.link_keys import accepts
from tests.wallet_client import wallet_client
from wire.messages import FundStatus, PayKind, PayStatus
from wire.orders import payout_order
from wire.wallet import Order, WalletClient

__all__ = ["ledger_rows", "wallet_database"]

NAME = "wallet.test"
HOSTS = ("127.0.0.1", "127.0.0.2")
"""Two hosts: all of 127.0.0.0/8 is this machine."""
BACK_S = 15.0
SHARES = 40
_PAID_NUMBERS = "SELECT count(*) FROM transfer WHERE order_no = ANY($1)"
NUMBERS = [payout_order(ENVELOPE, seq) for seq in range(SHARES)]


class Two:
    """Two wallet processes of one database, and the URL of the name that has the addresses of both."""

    def __init__(self, dsn: str) -> None:
        self.port = _free_at_both()
        self.url = f"http://{NAME}:{self.port}"
        self._environ = {**os.environ, "HONGBAO_POSTGRES_DSN": dsn, "HONGBAO_ACCEPT_KEYS": accepts("wallet")}
        self.running: dict[str, asyncio.subprocess.Process] = {}

    async def start(self, host: str) -> None:
        environ = {**self._environ, "HONGBAO_LISTEN": f"{host}:{self.port}"}
        self.running[host] = await asyncio.create_subprocess_exec(sys.executable, "-m", "wallet", env=environ)

    async def lose(self, host: str) -> None:
        self.running[host].kill()
        await self.running.pop(host).wait()


def _free_at_both() -> int:
    with socket.socket() as one, socket.socket() as other:
        one.bind((HOSTS[0], 0))
        port = int(one.getsockname()[1])
        other.bind((HOSTS[1], port))
        return port


@pytest.fixture
async def two(wallet_database: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Two]:
    """Both run, and the resolver of this process knows the name."""
    ask = socket.getaddrinfo

    def resolve(host: Any, *args: Any, **named: Any) -> Any:
        names = HOSTS if host == NAME else (host,)
        return [found for name in names for found in ask(name, *args, **named)]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    made = Two(wallet_database)
    for host in HOSTS:
        await made.start(host)
    yield made
    for host in list(made.running):
        await made.lose(host)


def _claims() -> list[Order]:
    return [Order(number, PayKind.CLAIM, f"u{seq}", 1, ENVELOPE) for seq, number in enumerate(NUMBERS)]


async def _until_paid(client: WalletClient) -> None:
    """Pay as a setnode does: the same order numbers again until there is an answer."""
    async with asyncio.timeout(BACK_S):
        while True:
            try:
                assert await client.pay(_claims()) == [(PayStatus.PAID, None)] * SHARES
            except Unavailable:
                await asyncio.sleep(0.05)
            else:
                return


async def _fund(client: WalletClient) -> None:
    await client.deposit("d", "ann", SHARES)
    found = await client.fund("k", "f", "ann", SHARES, ENVELOPE, HEADER, b"")
    assert found[0] == FundStatus.DONE


async def test_two_wallets_that_are_asked_the_same_at_once_pay_once(two: Two, ledger_rows: Any) -> None:
    """Each order number is paid once, whichever process got it first; both callers hear PAID."""
    first_url, other_url = (f"http://{host}:{two.port}" for host in HOSTS)
    async with wallet_client(first_url) as first, wallet_client(other_url) as other:
        await _fund(first)
        await asyncio.gather(*(_until_paid(one) for _ in range(5) for one in (first, other)))
        assert await other.balance("u0") == 1
    assert await ledger_rows.fetchval(_PAID_NUMBERS, NUMBERS) == SHARES
    assert await ledger_rows.fetchval("SELECT left_fen FROM fund") == 0


@pytest.mark.parametrize("fault", ["killed", "frozen"])
async def test_a_caller_of_the_name_goes_on_with_the_other_wallet(two: Two, ledger_rows: Any, fault: str) -> None:
    """One after the other ends or stands still, so one of them is the one that is called: the other wallet pays."""
    async with wallet_client(two.url) as client:
        await _fund(client)
        for host in HOSTS:
            if fault == "killed":
                await two.lose(host)
                await _until_paid(client)
                await two.start(host)
                async with wallet_client(f"http://{host}:{two.port}"):
                    pass  # it is connected: this one serves again before the other is lost
            else:
                two.running[host].send_signal(signal.SIGSTOP)
                await _until_paid(client)
                two.running[host].send_signal(signal.SIGCONT)
    assert await ledger_rows.fetchval(_PAID_NUMBERS, NUMBERS) == SHARES
