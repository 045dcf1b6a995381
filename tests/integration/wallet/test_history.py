"""What users and sweepers read: signs, order, cursors, and the cut of FUNDS."""

import asyncpg
import pytest

from runtime import sql
from tests.funds import fund_request
from tests.integration.wallet.fixtures import ENVELOPE, claim, ledger_rows, refund, wallet, wallet_database
from wallet.requests import PayOrder
from wire.messages import PayKind
from wire.orders import payout_order

__all__ = ["ledger_rows", "wallet", "wallet_database"]
NEVER_MS = 2**52


async def _story(wallet):
    await wallet.give("ann", 1000)
    for n in range(5):
        await wallet.batcher.submit(fund_request(f"k{n}", "f", "ann", 100, ENVELOPE + 1000 * n))
        await wallet.channel.pay([claim(0, "bob", 30 + n, ENVELOPE + 1000 * n)])
    await wallet.channel.pay([refund(1, "ann", 70)])


async def test_a_statement_is_signed_newest_first_and_pages(wallet, ledger_rows):
    """Entries sum to the balance, and pages of two give the same rows as one page."""
    await _story(wallet)
    whole = await wallet.history.entries("ann", 0, 100)
    assert [row[2] for row in whole] == ["refund", *["fund"] * 5, "deposit"]
    assert sum(row[3] for row in whole) == await wallet.history.balance("ann") == 570
    paged, before = [], 0
    while page := await wallet.history.entries("ann", before, 2):
        paged += page
        before = page[-1][0]
    assert paged == whole


async def test_lists_of_envelopes_by_role(wallet, ledger_rows):
    """Sent lists what was paid in, received what was claimed; newest first, and refunds are in neither."""
    await _story(wallet)
    sent = await wallet.history.envelopes("ann", "sent", 0, 100)
    assert [row[1:3] for row in sent] == [[ENVELOPE + 1000 * n, 100] for n in reversed(range(5))]
    received = await wallet.history.envelopes("bob", "received", 0, 2)
    assert [row[2] for row in received] == [34, 33]
    older = await wallet.history.envelopes("bob", "received", received[-1][0], 100)
    assert [row[2] for row in older] == [32, 31, 30]
    assert await wallet.history.envelopes("ann", "received", 0, 100) == []


async def test_funds_come_in_order_and_stop_at_the_first_too_young(wallet, ledger_rows):
    """A fund that is too young hides all behind it, also older-looking ones: no cursor can jump over it."""
    await _story(wallet)
    funds = await wallet.history.funds(0, NEVER_MS, 100)
    assert [row[1:] for row in funds] == [[ENVELOPE + 1000 * n, "ann", 100] for n in range(5)]
    await ledger_rows.execute("UPDATE fund SET created_at = now() + interval '1 hour' WHERE create_key = 'k2'")
    now_ms = await ledger_rows.fetchval("SELECT (extract(epoch FROM now() + interval '1 s') * 1000)::bigint")
    assert await wallet.history.funds(0, now_ms, 100) == funds[:2]
    assert await wallet.history.funds(funds[2][0], now_ms, 1) == funds[3:4]


async def test_a_fund_waits_for_the_one_before_it(wallet, ledger_rows, wallet_database):
    """While another process holds the ledger, no fund can become visible above a number it may still use."""
    await wallet.give("ann", 1000)
    other = await asyncpg.connect(wallet_database)
    await other.execute(sql.read("wallet", "begin_exclusive"))
    number = await ledger_rows.fetchval("SELECT nextval('fund_fund_id_seq')")
    waiting = wallet.batcher.submit(fund_request("k", "f", "ann", 100, ENVELOPE))
    held = "SELECT count(*) FROM pg_locks WHERE locktype = 'relation' AND NOT granted"
    while not await ledger_rows.fetchval(held):
        pass
    assert not waiting.done()
    await other.execute("COMMIT")
    await waiting
    assert (await wallet.history.funds(0, NEVER_MS, 9))[0][0] > number
    await other.close()


async def test_it_is_known_of_which_envelopes_anything_was_paid(wallet, ledger_rows):
    """One claim or refund is enough, of whatever seq; an ID that begins like another is another."""
    paid, refunded, unpaid = ENVELOPE, ENVELOPE + 1000, ENVELOPE + 2000
    for number, envelope_id in enumerate((paid, refunded, unpaid)):
        await wallet.give("ann", 100)
        await wallet.batcher.submit(fund_request(f"k{number}", "f", "ann", 100, envelope_id))
    orders = [
        PayOrder(payout_order(paid, 12), PayKind.CLAIM, "bob", 10, paid),
        PayOrder(payout_order(refunded, 0), PayKind.REFUND, "ann", 100, refunded),
    ]
    await wallet.channel.pay(orders)
    asked = [paid, refunded, unpaid, paid // 10, 7]
    assert sorted(await wallet.history.paid_out(asked)) == [paid, refunded]
    assert await wallet.history.paid_out([]) == []


@pytest.mark.parametrize(("role", "index"), [("sent", "transfer_sent"), ("received", "transfer_statement")])
async def test_a_list_of_envelopes_is_a_range_of_an_index(wallet, ledger_rows, role, index):
    """Under the plan that readers use: what a user sent is found among any number of receipts."""
    await _story(wallet)
    query = "EXPLAIN (COSTS OFF) " + sql.read("wallet", f"envelopes_{role}")
    plan = "\n".join(row[0] for row in await wallet.readers.fetch(query, "user:ann", NEVER_MS, 10))
    assert f"Index Scan Backward using {index}" in plan
    assert ("Filter: (kind" in plan) == (role == "received")
