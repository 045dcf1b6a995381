"""The ledger on a real Postgres: deliberate duplicates, exact counts, and batches with one bad order."""

import asyncio
import itertools
import random

import asyncpg
import pytest
from structlog.testing import capture_logs

from errors import InvariantBroken, Refused, Unavailable
from schema.roles import AUDIT
from tests.funds import fund_request
from tests.integration.wallet.fixtures import (
    ENVELOPE,
    claim,
    ledger_rows,
    prove,
    refund,
    running,
    wallet,
    wallet_database,
)
from wallet import batcher as batcher_module
from wallet import ledger as ledger_module
from wallet import metrics
from wallet.accounts import Accounts
from wallet.draft import Draft
from wallet.ledger import BatchRefused, Ledger
from wallet.limits import MAX_BATCH_ORDERS, MAX_QUEUED_ORDERS
from wallet.requests import DepositRequest, PayRequest
from wire.messages import FundStatus, PayStatus

__all__ = ["ledger_rows", "wallet", "wallet_database"]
PAID = (PayStatus.PAID, None)


def fund(key, envelope_id, total_fen=100, user="ann", fingerprint="f"):
    return fund_request(key, fingerprint, user, total_fen, envelope_id)


async def test_fifty_identical_creates_take_the_money_once(wallet, ledger_rows):
    """50 concurrent FUNDs with one key: exactly one DONE, 49 REPLAYED with its envelope, one transfer."""
    await wallet.give("ann", 1000)
    waiting = [wallet.batcher.submit(fund("k", ENVELOPE + 1000 * n)) for n in range(50)]
    answers = await asyncio.gather(*waiting)
    assert sorted(status for status, *_ in answers) == [FundStatus.DONE] + [FundStatus.REPLAYED] * 49
    assert {envelope_id for _, envelope_id, _ in answers} == {ENVELOPE}
    assert await wallet.history.balance("ann") == 900
    assert await ledger_rows.fetchval("SELECT count(*) FROM transfer WHERE kind = 1") == 1


async def test_fifty_identical_creates_from_two_processes_take_the_money_once(wallet_database, ledger_rows):
    """The same, with the requests spread over two wallets: the database decides."""
    async with running(wallet_database) as one, running(wallet_database) as two:
        await one.give("ann", 1000)
        answers = []
        for _ in range(5):
            waiting = [w.batcher.submit(fund("k", ENVELOPE)) for w in (one, two) for _ in range(5)]
            answers += await asyncio.gather(*waiting)
        assert sorted(status for status, *_ in answers) == [FundStatus.DONE] + [FundStatus.REPLAYED] * 49
        assert await one.history.balance("ann") == 900


async def test_a_key_with_another_body_or_a_taken_id_changes_nothing(wallet, ledger_rows):
    """KEY_REUSED and ID_TAKEN leave the balance; another candidate ID then succeeds."""
    await wallet.give("ann", 1000)
    assert await wallet.batcher.submit(fund("k", ENVELOPE)) == (FundStatus.DONE, ENVELOPE, b"")
    assert await wallet.batcher.submit(fund("k", ENVELOPE, fingerprint="g")) == (FundStatus.KEY_REUSED, ENVELOPE, b"")
    assert await wallet.batcher.submit(fund("l", ENVELOPE)) == (FundStatus.ID_TAKEN, ENVELOPE, b"")
    assert await wallet.batcher.submit(fund("l", ENVELOPE + 1000)) == (FundStatus.DONE, ENVELOPE + 1000, b"")
    assert await wallet.history.balance("ann") == 800


async def test_an_id_of_a_moment_ago_fails_no_batch(wallet, ledger_rows):
    """Those beside a create whose ID is another's are written at the first attempt; its own first attempt is found."""
    await wallet.give("ann", 1000)
    assert await wallet.batcher.submit(fund("k", ENVELOPE)) == (FundStatus.DONE, ENVELOPE, b"")
    refuted = metrics.attempts.labels("BatchRefused")
    before = refuted._value.get()
    waiting = [wallet.batcher.submit(fund(f"l{n}", ENVELOPE + 1000 * n)) for n in range(5)]
    statuses = [status for status, *_ in await asyncio.gather(*waiting)]
    assert statuses == [FundStatus.ID_TAKEN] + [FundStatus.DONE] * 4
    assert refuted._value.get() == before
    assert await wallet.batcher.submit(fund("k", ENVELOPE)) == (FundStatus.REPLAYED, ENVELOPE, b"")
    # A create that was begun before comes with the IDs of its second: one is another's, by the next its own is found.
    assert await wallet.batcher.submit(fund("k", ENVELOPE + 1000)) == (FundStatus.ID_TAKEN, ENVELOPE + 1000, b"")
    assert await wallet.batcher.submit(fund("k", ENVELOPE + 9000)) == (FundStatus.REPLAYED, ENVELOPE, b"")
    assert refuted._value.get() == before + 2
    assert await wallet.history.balance("ann") == 500


async def test_two_creates_that_want_one_id_in_one_batch_are_told_apart(wallet, ledger_rows):
    """Both keys arrive together with the same envelope ID: the first has it, the other hears ID_TAKEN."""
    await wallet.give("ann", 1000)
    answers = await asyncio.gather(*(wallet.batcher.submit(fund(key, ENVELOPE)) for key in "kl"))
    assert answers == [(FundStatus.DONE, ENVELOPE, b""), (FundStatus.ID_TAKEN, ENVELOPE, b"")]
    assert await wallet.history.balance("ann") == 900


async def test_a_create_without_money_may_succeed_after_a_deposit(wallet, ledger_rows):
    """INSUFFICIENT records nothing: the same key works once the money is there."""
    assert await wallet.batcher.submit(fund("k", ENVELOPE)) == (FundStatus.INSUFFICIENT, ENVELOPE, b"")
    assert await ledger_rows.fetchval("SELECT count(*) FROM fund") == 0
    await wallet.give("ann", 100)
    assert await wallet.batcher.submit(fund("k", ENVELOPE)) == (FundStatus.DONE, ENVELOPE, b"")


async def test_a_poor_sender_in_the_middle_of_a_batch_fails_alone(wallet, ledger_rows):
    """Of 21 creates in one batch, the one without money is INSUFFICIENT and the other 20 are DONE."""
    await wallet.give("ann", 2000)
    waiting = [
        wallet.batcher.submit(fund(f"k{n}", ENVELOPE + 1000 * n, user="bob" if n == 10 else "ann")) for n in range(21)
    ]
    answers = await asyncio.gather(*waiting)
    assert [n for n, (status, *_) in enumerate(answers) if status != FundStatus.DONE] == [10]
    assert answers[10][0] == FundStatus.INSUFFICIENT
    assert await wallet.history.balance("ann") == 0


async def test_two_peers_paying_the_same_orders_pay_each_once(wallet_database, ledger_rows):
    """Two wallets get the same 200 orders at once, in different order: all answers PAID, 200 credits."""
    async with running(wallet_database) as one, running(wallet_database) as two:
        await one.give("ann", 1000)
        await one.batcher.submit(fund("k", ENVELOPE, 1000))
        orders = [claim(seq, f"u{seq % 7}", 5) for seq in range(200)]
        waiting = []
        for n, w in enumerate((one, two, one, two)):
            shuffled = random.Random(n).sample(orders, len(orders))
            waiting += [w.channel.pay(shuffled[i : i + 50]) for i in range(0, 200, 50)]
        results = await asyncio.gather(*waiting)
        assert all(tuple(result) == PAID for result in itertools.chain.from_iterable(results))
        assert len(results) == 16
    assert await ledger_rows.fetchval("SELECT count(*) FROM transfer WHERE kind = 2") == 200
    paid = await ledger_rows.fetchval("SELECT sum(balance_fen) FROM account WHERE name LIKE 'user:u%'")
    assert paid == 1000


async def test_an_order_that_differs_from_its_first_is_a_conflict(wallet, ledger_rows):
    """Same number, other amount or user: REFUSED order_conflict; the others of its list are paid."""
    await wallet.give("ann", 100)
    await wallet.batcher.submit(fund("k", ENVELOPE))
    assert await wallet.channel.pay([claim(0, "bob", 10)]) == [PAID]
    results = await wallet.channel.pay([claim(0, "bob", 11), claim(0, "cid", 10), claim(1, "cid", 10)])
    assert results == [(PayStatus.REFUSED, "order_conflict"), (PayStatus.REFUSED, "order_conflict"), PAID]
    assert await wallet.history.balance("cid") == 10


async def test_an_envelope_is_never_paid_more_than_its_fund_holds(wallet, ledger_rows):
    """fund_exceeded refuses exactly the order that does not fit, and names it; a refund of the rest still does."""
    await wallet.give("ann", 100)
    await wallet.batcher.submit(fund("k", ENVELOPE))
    with capture_logs() as logged:
        results = await wallet.channel.pay([claim(0, "bob", 60), claim(1, "cid", 41), refund(2, "ann", 40)])
    (told,) = [line for line in logged if line["log_level"] == "error"]
    assert (told["check"], told["order_nos"]) == ("fund_exceeded", [f"{ENVELOPE}.1"])
    assert results == [PAID, (PayStatus.REFUSED, "fund_exceeded"), PAID]
    assert await wallet.history.balance("ann") == 40
    assert await wallet.history.escrow_total() == 0


async def test_no_envelope_is_paid_with_the_money_of_another(wallet, ledger_rows):
    """Both lie in one escrow, by day and slot; still each is paid from its own fund, refunds included."""
    await wallet.give("ann", 200)
    await wallet.batcher.submit(fund("k", ENVELOPE))
    await wallet.batcher.submit(fund("l", ENVELOPE + 1000))
    beyond = [claim(0, "bob", 100), claim(1, "cid", 1), refund(2, "ann", 1), claim(0, "dan", 1, ENVELOPE + 2000)]
    refused = (PayStatus.REFUSED, "fund_exceeded")
    assert await wallet.channel.pay(beyond) == [PAID, refused, refused, refused]
    left = "SELECT left_fen FROM fund WHERE envelope_id = $1"
    assert await ledger_rows.fetchval(left, ENVELOPE) == 0
    assert await ledger_rows.fetchval(left, ENVELOPE + 1000) == 100
    assert await wallet.history.escrow_total() == 100


async def test_money_is_written_by_post_alone(wallet, wallet_database, ledger_rows):
    """The wallet's role can neither move a balance, nor write a transfer or a fund, nor open an account with money."""
    await wallet.give("ann", 100)
    await wallet.batcher.submit(fund("k", ENVELOPE))
    connection = await asyncpg.connect(wallet_database)
    try:
        for wrong in (
            "UPDATE account SET balance_fen = 1",
            "INSERT INTO account (name, kind, balance_fen) VALUES ('user:eve', 0, 100)",
            (
                "INSERT INTO transfer (debit_account, credit_account, user_account, amount_fen, kind, order_no) "
                "VALUES (1, 2, 2, 5, 0, 'mine')"
            ),
            "UPDATE transfer SET amount_fen = 1",
            "DELETE FROM transfer",
            "UPDATE fund SET left_fen = 0",
            "INSERT INTO fund OVERRIDING SYSTEM VALUE SELECT * FROM fund",
            "BEGIN; LOCK TABLE ledger_lock IN EXCLUSIVE MODE",
            "SELECT deposit_rules()",
        ):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.execute(wrong)
            await connection.execute("ROLLBACK")
    finally:
        await connection.close()


@pytest.mark.parametrize(
    "taken",
    [
        "SELECT hold_ledger()",
        "LOCK TABLE ledger_lock IN EXCLUSIVE MODE",
        "LOCK TABLE ledger_lock IN ROW SHARE MODE",
        "LOCK TABLE transfer IN SHARE MODE",
        "SELECT * FROM account FOR UPDATE",
        "SELECT post('{}','{}','{}','{}','{}','{}','{}',0,'{}','{}','{}','{}','{}','{}','{}')",
    ],
)
async def test_whoever_reads_for_the_audit_can_hold_up_no_payment(databases, wallet, wallet_database, taken):
    """Its role can take neither the ledger's lock nor one of rows or tables for which a batch would wait."""
    await wallet.give("ann", 100)
    connection = await asyncpg.connect(databases.dsn_as(wallet_database, AUDIT))
    try:
        assert await connection.fetchval("SELECT count(*) FROM transfer") == 1
        await connection.execute("BEGIN")
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute(taken)
        async with asyncio.timeout(10):
            await wallet.give("bob", 1)
    finally:
        await connection.close()


async def test_a_deposit_comes_from_outside(wallet, ledger_rows):
    """A transfer of kind 0 out of a user or an escrow, or to anybody but a user, is refused by Postgres itself."""
    await wallet.give("ann", 100)
    await wallet.give("bob", 1)
    await wallet.batcher.submit(fund("k", ENVELOPE))
    row = """INSERT INTO transfer (debit_account, credit_account, user_account, amount_fen, kind, order_no)
        SELECT d.account_id, c.account_id, c.account_id, 5, 0, 'mine' FROM account d, account c
        WHERE d.name LIKE $1 AND c.name LIKE $2"""
    for debit, credit in (("user:ann", "user:bob"), ("escrow:%", "user:bob"), ("outside", "escrow:%")):
        with pytest.raises(asyncpg.CheckViolationError):
            await ledger_rows.execute(row, debit, credit)
    with pytest.raises(asyncpg.CheckViolationError):
        await ledger_rows.execute("UPDATE transfer SET kind = 0, envelope_id = NULL, user_account = credit_account")


async def test_a_sender_without_money_is_an_answer_of_post(wallet, ledger_rows):
    """What is refused is no failed statement, which Postgres would log as an ERROR; nothing is written by it."""
    await wallet.give("ann", 100)
    await wallet.give("poor", 1)
    await wallet.batcher.submit(fund("k", ENVELOPE))
    one, poor, escrow = [
        await ledger_rows.fetchval("SELECT account_id FROM account WHERE name LIKE $1", name)
        for name in ("user:ann", "user:poor", "escrow:%")
    ]
    call = "SELECT post($1, '{1}', $2, $3, $2, $4, $5, 2, '{}', '{}', '{}', '{}', '{}', '{}', '{}')"
    row = f"{{{poor}}}", f"{{{escrow}}}", "{2}", f"{{{ENVELOPE}}}"
    assert await ledger_rows.fetchval(call, "{Fx}", *row) == "account_not_negative"
    assert await ledger_rows.fetchval(call, "{Fk}", f"{{{one}}}", *row[1:]) == "transfer_order"
    assert await ledger_rows.fetchval("SELECT count(*) FROM transfer WHERE kind = 1") == 1


async def test_a_deposit_counts_once_and_tells_the_balance(wallet, ledger_rows):
    """A repeat tells the present balance and moves nothing; the number for another sum is refused."""
    deposit = DepositRequest("d", "ann", 30)
    assert await asyncio.gather(*(wallet.batcher.submit(deposit) for _ in range(10))) == [30] * 10
    assert await wallet.batcher.submit(deposit) == 30
    with pytest.raises(Refused, match="order_conflict"):
        await wallet.batcher.submit(DepositRequest("d", "ann", 31))


async def test_a_full_queue_refuses_at_once(wallet, ledger_rows):
    """What would exceed the queue's bound hears busy with a time to retry, and moves no money."""
    orders = [claim(n, "bob", 1) for n in range(MAX_BATCH_ORDERS)]
    waiting = [wallet.batcher.submit(PayRequest(orders)) for _ in range(MAX_QUEUED_ORDERS // MAX_BATCH_ORDERS)]
    with pytest.raises(Unavailable) as refused:
        wallet.batcher.submit(PayRequest(orders))
    assert (refused.value.code, refused.value.outcome_known) == ("busy", True)
    for request in waiting:
        request.cancel()


async def test_a_backlog_of_payouts_neither_keeps_a_create_out_nor_delays_it(wallet_database, ledger_rows, monkeypatch):
    """With its line full a payout hears busy, a create does not, and is done two transactions later at most."""
    monkeypatch.setattr(batcher_module, "MAX_BATCH_ORDERS", 10)
    monkeypatch.setattr(batcher_module, "MAX_QUEUED_ORDERS", 50)
    async with running(wallet_database) as one:
        await one.give("ann", 1000)
        await one.batcher.submit(fund("k", ENVELOPE))
        await ledger_rows.execute("BEGIN; SELECT hold_ledger()")
        numbers = itertools.count()
        pays = [[claim(next(numbers), "bob", 1) for _ in range(10)] for _ in range(7)]
        waiting = [one.batcher.submit(PayRequest(pays[0]))]
        while not await ledger_rows.fetchval(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'relation' AND NOT granted"
        ):
            await asyncio.sleep(0)
        waiting += [one.batcher.submit(PayRequest(orders)) for orders in pays[1:6]]
        with pytest.raises(Unavailable, match="too much to do"):
            one.batcher.submit(PayRequest(pays[6]))
        create = one.batcher.submit(fund("l", ENVELOPE + 1000))
        await ledger_rows.execute("ROLLBACK")
        assert await create == (FundStatus.DONE, ENVELOPE + 1000, b"")
        assert sum(pay.done() for pay in waiting) <= 2
        assert await asyncio.gather(*waiting) == [[PAID] * 10] * 6
        assert await one.history.balance("bob") == 60


async def test_a_caller_that_hangs_up_does_not_undo_its_order(wallet, ledger_rows):
    """Cancelling the answer of an order does not cancel the order."""
    await wallet.give("ann", 100)
    await wallet.batcher.submit(fund("k", ENVELOPE))
    gone = wallet.batcher.submit(PayRequest([claim(0, "bob", 10)]))
    gone.cancel()
    assert await wallet.channel.pay([claim(1, "bob", 10)]) == [PAID]
    assert await wallet.history.balance("bob") == 20


async def test_the_database_refuses_wrong_code(wallet, ledger_rows):
    """UNIQUE and CHECK hold without the wallet's rules: negative user, second number, zero amount, wrong kind."""
    await wallet.give("ann", 100)
    for wrong in (
        "UPDATE account SET balance_fen = -1 WHERE name = 'user:ann'",
        "INSERT INTO account (name, kind) VALUES ('user:bob', 2)",
        """INSERT INTO transfer (debit_account, credit_account, user_account, amount_fen, kind, order_no)
            SELECT debit_account, credit_account, user_account, amount_fen, kind, order_no FROM transfer""",
        """INSERT INTO transfer (debit_account, credit_account, user_account, amount_fen, kind, order_no)
            VALUES (1, 2, 2, 0, 0, 'zero')""",
        """INSERT INTO transfer (debit_account, credit_account, user_account, amount_fen, kind, order_no)
            VALUES (1, 1, 1, 5, 0, 'self')""",
    ):
        with pytest.raises((asyncpg.CheckViolationError, asyncpg.UniqueViolationError)):
            await ledger_rows.execute(wrong)


@pytest.mark.parametrize("seed", range(6))
async def test_any_sequence_keeps_the_books(wallet_database, ledger_rows, seed):
    """Random requests from two processes, half of them repeats: balances sum to zero and equal their transfers."""
    dice = random.Random(seed)
    users = ["ann", "bob", "cid", "dee"]
    envelopes = [ENVELOPE + 1000 * n for n in range(3)] + [ENVELOPE + 1, ENVELOPE + 2]

    def request():
        user, envelope_id, amount_fen = dice.choice(users), dice.choice(envelopes), dice.randint(1, 30)
        match dice.randrange(4):
            case 0:
                return DepositRequest(f"d{dice.randrange(20)}", user, amount_fen)
            case 1:
                return fund_request(f"k{dice.randrange(12)}", dice.choice("fg"), user, amount_fen, envelope_id)
            case _:
                orders = [claim(dice.randrange(8), user, dice.randint(1, 9), envelope_id) for _ in range(3)]
                return PayRequest([*orders, refund(9, user, amount_fen, envelope_id)])

    async with running(wallet_database) as one, running(wallet_database) as two:
        for _ in range(12):
            made = [request() for _ in range(15)]
            made += dice.choices(made, k=15)
            waiting = [dice.choice((one, two)).batcher.submit(each) for each in made]
            answers = await asyncio.gather(*waiting, return_exceptions=True)
            assert all(not isinstance(answer, Exception) or isinstance(answer, Refused) for answer in answers)
        await prove(ledger_rows)


async def test_numbers_of_accounts_that_were_rolled_back_are_not_remembered(wallet_database, ledger_rows):
    """A refuted batch leaves no account number in memory: the number it drew is void."""
    accounts = Accounts()
    connection = await asyncpg.connect(wallet_database)
    with pytest.raises(BatchRefused):
        await Ledger(accounts).write(
            connection, [Draft(DepositRequest("d", "bob", 5)), Draft(fund("k", ENVELOPE))], careful=False
        )
    await connection.execute("ROLLBACK")
    plan = await Ledger(accounts).write(connection, [Draft(DepositRequest("d", "bob", 5))], careful=False)
    assert plan.answers == [5]
    await connection.close()


async def test_a_commit_that_rolled_back_is_no_commit(wallet_database):
    """Postgres answers the COMMIT of a failed transaction with ROLLBACK and no error; nothing counts as written."""
    connection = await asyncpg.connect(wallet_database)
    await connection.execute("BEGIN")
    with pytest.raises(asyncpg.PostgresError):
        await connection.execute("SELECT 1 / 0")
    with pytest.raises(InvariantBroken, match="commit_commits"):
        await ledger_module._commit(connection)
    await connection.close()


async def test_a_database_restored_under_us_is_noticed(wallet, ledger_rows):
    """Account numbers that are gone from the database stop the batch, which is then written with fresh ones."""
    await wallet.give("ann", 5)
    await ledger_rows.execute("TRUNCATE account, transfer, fund")
    await wallet.give("ann", 7)
    assert await wallet.history.balance("ann") == 7
