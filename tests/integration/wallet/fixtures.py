"""What the wallet's tests stand on: a fresh wallet database, its parts wired as the process wires them, and a proof.

A test module imports the fixtures it uses, and names them in `__all__`.
"""

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import asyncpg
import pytest

from schema.migrate import migrate_wallet
from schema.roles import WALLET
from tests.conftest import Databases
from wallet.accounts import Accounts
from wallet.batcher import Batcher
from wallet.channels import LedgerChannel
from wallet.history import History
from wallet.ledger import Ledger
from wallet.readers import Readers
from wallet.requests import DepositRequest, PayOrder
from wallet.service import writer_session
from wire.messages import PayKind
from wire.orders import payout_order

ENVELOPE = 2611210000000001007


@pytest.fixture
async def wallet_database(databases: Databases) -> str:
    """DSN, in the wallet's own role, of a fresh database with the wallet's migrations applied."""
    return databases.dsn_as(await databases.clone("wallet", migrate_wallet), WALLET)


class Wallet(NamedTuple):
    """One wallet's parts, without its HTTP."""

    batcher: Batcher
    channel: LedgerChannel
    history: History
    readers: Readers

    async def give(self, user: str, amount_fen: int) -> None:
        await self.batcher.submit(DepositRequest(f"D{uuid.uuid4().hex}", user, amount_fen))


@contextlib.asynccontextmanager
async def running(dsn: str) -> AsyncIterator[Wallet]:
    """Run one wallet process's parts inside the test's loop."""
    readers = Readers(dsn)
    batcher = Batcher(writer_session(dsn), Ledger(Accounts()))
    async with asyncio.TaskGroup() as group:
        writing = group.create_task(batcher.run())
        yield Wallet(batcher, LedgerChannel(batcher), History(readers), readers)
        batcher.stop()
        await asyncio.wait({writing}, timeout=5)
        await readers.close()


@pytest.fixture
async def wallet(wallet_database: str) -> AsyncIterator[Wallet]:
    async with running(wallet_database) as one:
        yield one


@pytest.fixture
async def ledger_rows(databases: Databases, wallet_database: str) -> AsyncIterator[Any]:
    """Look at what is really stored, as superuser; proves the ledger when the test ends."""
    connection = await asyncpg.connect(databases.dsn_as(wallet_database, "postgres"))
    yield connection
    await prove(connection)
    await connection.close()


async def prove(connection: Any) -> None:
    """All balances sum to zero, and each is the sum of its transfers, by another path than the code's."""
    assert await connection.fetchval("SELECT coalesce(sum(balance_fen), 0) FROM account") == 0
    wrong = await connection.fetch(
        """SELECT name, balance_fen FROM account WHERE balance_fen <>
            coalesce((SELECT sum(amount_fen) FROM transfer WHERE credit_account = account_id), 0)
            - coalesce((SELECT sum(amount_fen) FROM transfer WHERE debit_account = account_id), 0)"""
    )
    assert wrong == []
    lost = await connection.fetchval(
        """SELECT count(*) FROM fund WHERE NOT EXISTS (
            SELECT FROM transfer WHERE order_no = 'F' || create_key AND amount_fen = total_fen
                AND transfer.envelope_id = fund.envelope_id AND transfer.user_account = fund.user_account)"""
    )
    assert lost == 0


def claim(seq: int, user: str, amount_fen: int, envelope_id: int = ENVELOPE) -> PayOrder:
    return PayOrder(payout_order(envelope_id, seq), PayKind.CLAIM, user, amount_fen, envelope_id)


def refund(seq: int, user: str, amount_fen: int, envelope_id: int = ENVELOPE) -> PayOrder:
    return PayOrder(payout_order(envelope_id, seq), PayKind.REFUND, user, amount_fen, envelope_id)
