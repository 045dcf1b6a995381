"""What the wallet's tests stand on: a fresh wallet database, its parts wired as the process wires them, and a proof.

`HONGBAO_TEST_POSTGRES` names a server (a DSN of a superuser); the shared fixture can take its place.
"""

import asyncio
import contextlib
import os
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import asyncpg
import pytest

from wallet.__main__ import writer_session
from wallet.accounts import Accounts
from wallet.batcher import Batcher
from wallet.channels import LedgerChannel
from wallet.ledger import Ledger
from wallet.readers import Readers
from wallet.requests import DepositRequest, PayOrder
from wallet.statements import Statements
from wire.messages import PayKind
from wire.orders import payout_order

MIGRATIONS = sorted((Path(__file__).parents[2] / "schema" / "wallet").glob("[0-9]*.sql"))
SERVER = os.environ.get("HONGBAO_TEST_POSTGRES", "")
ENVELOPE = 2611210000000001007


async def make_database(server: str, files: list[Path]) -> tuple[str, str]:
    """Create an empty database on `server`, run `files` in it, return its name and DSN."""
    name = "wallet_" + uuid.uuid4().hex
    admin = await asyncpg.connect(server)
    await admin.execute(f"CREATE DATABASE {name}")
    await admin.close()
    dsn = server.rsplit("/", 1)[0] + "/" + name
    connection = await asyncpg.connect(dsn)
    for file in files:
        await connection.execute(file.read_text(encoding="utf-8"))
    await connection.close()
    return name, dsn


async def drop_database(server: str, name: str) -> None:
    admin = await asyncpg.connect(server)
    await admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
    await admin.close()


@pytest.fixture
async def wallet_database() -> AsyncIterator[str]:
    """DSN of a fresh database with the wallet's migrations applied."""
    if not SERVER:
        pytest.skip("set HONGBAO_TEST_POSTGRES to the DSN of a throw-away server")
    name, dsn = await make_database(SERVER, MIGRATIONS)
    yield dsn
    await drop_database(SERVER, name)


class Wallet(NamedTuple):
    """One wallet's parts, without its HTTP."""

    batcher: Batcher
    channel: LedgerChannel
    statements: Statements
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
        yield Wallet(batcher, LedgerChannel(batcher), Statements(readers), readers)
        batcher.stop()
        await asyncio.wait({writing}, timeout=5)
        await readers.close()


@pytest.fixture
async def wallet(wallet_database: str) -> AsyncIterator[Wallet]:
    async with running(wallet_database) as one:
        yield one


@pytest.fixture
async def ledger_rows(wallet_database: str) -> AsyncIterator[Any]:
    """A connection to look at what is really stored; proves the ledger when the test ends."""
    connection = await asyncpg.connect(wallet_database)
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
