"""The ledger under a database that goes away: nothing is lost, nothing is paid twice."""

import asyncio
import contextlib

import asyncpg
import pytest

from errors import Unavailable
from runtime import sql
from runtime.postgres import Session
from tests.funds import fund_request
from tests.integration.hanging_proxy import hanging_proxy
from tests.integration.wallet.fixtures import ENVELOPE, claim, ledger_rows, running, wallet, wallet_database
from wallet import batcher as batcher_module
from wallet import readers as readers_module
from wallet.accounts import Accounts
from wallet.ledger import Ledger
from wallet.limits import READERS
from wallet.requests import DepositRequest, PayRequest
from wallet.service import writer_session
from wire.messages import FundStatus, PayStatus

__all__ = ["ledger_rows", "wallet", "wallet_database"]
PAID = (PayStatus.PAID, None)


async def _fund(wallet, total_fen):
    await wallet.give("ann", total_fen)
    await wallet.batcher.submit(fund_request("k", "f", "ann", total_fen, ENVELOPE))


async def test_backends_killed_in_the_middle_of_batches_pay_every_order_once(wallet_database, ledger_rows):
    """pg_terminate_backend again and again while 12,000 orders are paid by two wallets: 12,000 credits, no more."""
    orders = [claim(seq, f"u{seq % 500}", 1) for seq in range(12_000)]
    kills = 0
    async with running(wallet_database) as one, running(wallet_database) as two:
        await _fund(one, len(orders))

        async def pay(wallet, part):
            while True:
                try:
                    return await wallet.channel.pay(part)
                except Unavailable:
                    await asyncio.sleep(0)

        paying = asyncio.gather(*(pay(w, orders[i : i + 500]) for i in range(0, 12_000, 500) for w in (one, two)))
        while not paying.done():
            if kills < 8:
                kills += await ledger_rows.fetchval(
                    """SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                    WHERE datname = current_database() AND pid <> pg_backend_pid() AND state = 'active'
                        AND query LIKE '%SELECT post(%'"""
                )
            await asyncio.sleep(0.01)
        results = await paying
        assert all(tuple(result) == PAID for part in results for result in part)
    assert kills >= 1
    assert await ledger_rows.fetchval("SELECT count(*) FROM transfer WHERE kind = 2") == 12_000
    total = await ledger_rows.fetchval("SELECT sum(balance_fen) FROM account WHERE name LIKE 'user:u%'")
    assert total == 12_000


class _LosesTheAnswer:
    """A connection on which a commit succeeds in Postgres and nobody tells us."""

    def __init__(self, connection) -> None:
        self._connection = connection

    def __getattr__(self, name):
        return getattr(self._connection, name)

    async def execute(self, query, *args):
        alone = not self._connection.is_in_transaction()
        done = await self._connection.execute(query, *args)
        if query == "COMMIT" or (alone and query == sql.read("wallet", "post")):
            raise ConnectionResetError("the answer was lost")
        return done


@pytest.mark.parametrize("known", [True, False])
async def test_an_answer_lost_after_the_commit_is_found_again(wallet, ledger_rows, monkeypatch, known):
    """The batch is repeated under the same numbers: the caller hears PAID, the money moved once.

    A batch of known accounts is a statement that commits itself, one that makes accounts ends with COMMIT.
    """
    await _fund(wallet, 100)
    if known:
        await wallet.give("bob", 1)
    use, lost = Session.use, []

    async def once(session):
        connection = await use(session)
        if lost:
            return connection
        lost.append(1)
        return _LosesTheAnswer(connection)

    monkeypatch.setattr(Session, "use", once)
    assert await wallet.channel.pay([claim(0, "bob", 10)]) == [PAID]
    assert lost
    assert await wallet.history.balance("bob") == 10 + known


async def test_a_lost_answer_among_creates_in_a_row_is_found_again(wallet, ledger_rows, monkeypatch):
    """Creates in a row: the commit of the first is lost on its way back, and each still takes its money once."""
    await _fund(wallet, 100)  # every account of the creates is known from now on
    await wallet.give("ann", 500)
    use, lost = Session.use, []

    async def once(session):
        connection = await use(session)
        if lost:
            return connection
        lost.append(1)
        return _LosesTheAnswer(connection)

    monkeypatch.setattr(Session, "use", once)
    monkeypatch.setattr(wallet.batcher._creates, "_batched", 1)
    creates = [fund_request(f"row{n}", "f", "ann", 100, ENVELOPE + 1000 * (n + 1)) for n in range(5)]
    answers = await asyncio.gather(*map(wallet.batcher.submit, creates))
    assert [status for status, *_ in answers] == [FundStatus.REPLAYED] + [FundStatus.DONE] * 4
    assert lost
    assert await wallet.history.balance("ann") == 0


async def test_no_transaction_outlives_its_batch(wallet, ledger_rows, monkeypatch):
    """No transaction stays open between batches; creates, replays and deposits in batches of one move money once."""
    await _fund(wallet, 100)
    await wallet.give("ann", 500)
    creates = [fund_request(f"row{n}", "f", "ann", 100, ENVELOPE + 1000 * (n + 1)) for n in range(4)]
    assert (await wallet.batcher.submit(creates[0]))[0] is FundStatus.DONE
    open_ones = """SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND state LIKE 'idle in transaction%'"""
    assert await ledger_rows.fetchval(open_ones) == 0
    waiting = [wallet.batcher.submit(creates[1]), wallet.batcher.submit(DepositRequest("more", "new", 7))]
    assert [(await waiting[0])[0], await waiting[1]] == [FundStatus.DONE, 7]
    monkeypatch.setattr(wallet.batcher._creates, "_batched", 1)
    waiting = [
        wallet.batcher.submit(one) for one in (creates[2], creates[0], DepositRequest("yet more", "new", 7), creates[3])
    ]
    assert await asyncio.gather(*waiting) == [
        (FundStatus.DONE, creates[2].envelope_id, b""), (FundStatus.REPLAYED, creates[0].envelope_id, b""), 14,
        (FundStatus.DONE, creates[3].envelope_id, b""),
    ]  # fmt: skip
    assert await wallet.history.balance("ann") == 100


async def test_without_a_database_callers_are_let_go_and_told_the_truth(monkeypatch):
    """No connection within the deadline: Unavailable(busy) with a known outcome, because nothing was ever sent."""
    monkeypatch.setattr(batcher_module, "REQUEST_DEADLINE_S", 0.3)
    async with running("postgresql://nobody@127.0.0.1:9/nowhere") as wallet:
        with pytest.raises(Unavailable) as refused:
            await wallet.batcher.submit(PayRequest([claim(0, "bob", 10)]))
    assert refused.value.outcome_known


async def test_a_silent_database_is_left_and_the_outcome_called_unknown(
    wallet, ledger_rows, wallet_database, monkeypatch
):
    """While somebody else holds the ledger for good, the caller hears outcome_unknown; later the repeat is paid."""
    await _fund(wallet, 100)
    monkeypatch.setattr(batcher_module, "REQUEST_DEADLINE_S", 0.3)
    monkeypatch.setattr(batcher_module, "COMMIT_PATIENCE_S", 0.2)
    other = await asyncpg.connect(wallet_database)
    await other.execute("BEGIN; SELECT hold_ledger()")
    with pytest.raises(Unavailable) as refused:
        await wallet.channel.pay([claim(0, "bob", 10)])
    assert (refused.value.code, refused.value.outcome_known) == ("outcome_unknown", False)
    await other.execute("ROLLBACK")
    await other.close()
    monkeypatch.undo()
    assert await wallet.channel.pay([claim(0, "bob", 10)]) == [PAID]
    assert await ledger_rows.fetchval("SELECT count(*) FROM transfer WHERE kind = 2") == 1


async def test_a_create_that_was_refused_for_good_takes_no_money_later(wallet_database, ledger_rows, monkeypatch):
    """A create stuck on its way to Postgres, asked again and refused for want of money, does not arrive afterwards."""
    create = fund_request("late", "f", "ann", 100, ENVELOPE + 1000)
    async with hanging_proxy(wallet_database) as proxy, running(proxy.through(wallet_database)) as one:
        await _fund(one, 100)  # every account of the create is known from now on
        monkeypatch.setattr(batcher_module, "REQUEST_DEADLINE_S", 0.3)
        monkeypatch.setattr(batcher_module, "COMMIT_PATIENCE_S", 0.2)
        proxy.hang()
        with pytest.raises(Unavailable) as stuck:
            await one.batcher.submit(create)
        assert not stuck.value.outcome_known
        async with running(wallet_database) as two:
            assert await two.batcher.submit(create) == (FundStatus.INSUFFICIENT, ENVELOPE + 1000, b"")
            await two.give("ann", 100)
            proxy.wake()
            await asyncio.sleep(0.3)
            assert await two.history.balance("ann") == 100
            assert await two.batcher.submit(create) == (FundStatus.DONE, ENVELOPE + 1000, b"")


async def test_payouts_to_accounts_that_are_gone_are_not_paid(wallet, ledger_rows):
    """Numbers remembered of a database that was emptied under us: the statement writes nothing and says so."""
    await wallet.give("bob", 1)
    await _fund(wallet, 100)
    assert await wallet.channel.pay([claim(0, "bob", 10)]) == [PAID]
    await ledger_rows.execute("TRUNCATE account, transfer, fund")
    assert await wallet.channel.pay([claim(1, "bob", 10)]) == [(PayStatus.REFUSED, "fund_exceeded")]
    assert await ledger_rows.fetchval("SELECT count(*) FROM transfer") == 0


async def test_a_new_connection_trusts_no_number_of_the_old_one(wallet_database, ledger_rows):
    """A restored database may have given an account's number to somebody else: he is not paid in its place."""
    async with running(wallet_database) as wallet:
        await _fund(wallet, 100)
        assert await wallet.channel.pay([claim(0, "bob", 10)]) == [PAID]
        await ledger_rows.execute("TRUNCATE account, transfer, fund RESTART IDENTITY")
        await ledger_rows.execute(
            """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE datname = current_database() AND pid <> pg_backend_pid()"""
        )
        async with running(wallet_database) as other:
            for user in ("cid", "dan", "eve", "fay"):
                await other.give(user, 1)
            await _fund(other, 100)
        assert await wallet.channel.pay([claim(0, "bob", 10)]) == [PAID]
        assert await wallet.history.balance("bob") == 10


async def test_a_request_that_cannot_be_written_does_not_hold_up_its_batch(wallet, ledger_rows):
    """An order that Postgres itself refuses fails alone; those before and behind it in the batch are paid."""
    await _fund(wallet, 100)
    await ledger_rows.execute("ALTER TABLE transfer ADD CONSTRAINT mine CHECK (amount_fen <> 13)")
    waiting = [wallet.batcher.submit(PayRequest([claim(seq, "bob", 12 + seq)])) for seq in range(3)]
    answers = await asyncio.gather(*waiting, return_exceptions=True)
    assert [answers[0], answers[2]] == [[PAID], [PAID]]
    assert isinstance(answers[1], Unavailable)
    assert await wallet.history.balance("bob") == 26


async def test_a_stop_with_a_batch_in_flight_lets_everybody_go(wallet_database, ledger_rows):
    """Stopped while Postgres is silent, nobody waits for ever: what was sent is called unknown, the rest busy."""
    other = await asyncpg.connect(wallet_database)
    batcher = batcher_module.Batcher(writer_session(wallet_database), Ledger(Accounts()))
    writing = asyncio.ensure_future(batcher.run())
    await other.execute("BEGIN; SELECT hold_ledger()")
    sent = batcher.submit(PayRequest([claim(0, "bob", 10)]))
    waits = "SELECT count(*) FROM pg_locks WHERE locktype = 'relation' AND NOT granted"
    while not await ledger_rows.fetchval(waits):
        await asyncio.sleep(0)
    queued = batcher.submit(PayRequest([claim(1, "bob", 10)]))
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    for answer, known in ((sent, False), (queued, True)):
        with pytest.raises(Unavailable) as refused:
            await answer
        assert refused.value.outcome_known is known
    await other.close()


async def test_reads_of_a_silent_database_end_in_time_and_readiness_says_so(wallet_database, ledger_rows, monkeypatch):
    """No connection is held for ever: more reads than connections are let go, and are served once it answers again."""
    monkeypatch.setattr(readers_module, "READ_DEADLINE_S", 0.5)
    async with hanging_proxy(wallet_database) as proxy, running(proxy.through(wallet_database)) as wallet:
        await wallet.give("ann", 7)
        assert await wallet.history.balance("ann") == 7
        assert wallet.readers.up
        proxy.hang()
        reads = [wallet.history.balance("ann") for _ in range(2 * READERS)]
        async with asyncio.timeout(10):
            answers = await asyncio.gather(*reads, return_exceptions=True)
        assert {one.code for one in answers} <= {"database_unavailable", "busy"}
        assert all(one.outcome_known for one in answers)
        assert not wallet.readers.up
        proxy.wake()
        async with asyncio.timeout(20):
            while not wallet.readers.up:
                with contextlib.suppress(Unavailable):
                    await wallet.readers.check()
        assert await asyncio.gather(*(wallet.history.balance("ann") for _ in range(2 * READERS))) == [7] * 2 * READERS
        assert proxy.cancels == 0


async def test_an_idle_writer_notices_that_its_database_is_silent(wallet_database, ledger_rows, monkeypatch):
    """Nobody has to send a payment to find out: readiness says no, and yes again once it answers."""
    monkeypatch.setattr(batcher_module, "IDLE_CHECK_S", 0.2)
    async with hanging_proxy(wallet_database) as proxy, running(proxy.through(wallet_database)) as wallet:
        await wallet.give("ann", 7)
        proxy.hang()
        async with asyncio.timeout(10):
            while wallet.batcher.up:
                await asyncio.sleep(0.01)
        proxy.wake()
        await wallet.give("ann", 7)
        assert wallet.batcher.up
