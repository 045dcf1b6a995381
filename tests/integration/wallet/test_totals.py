"""Sums of a year: what the statement says, from the index of statements alone."""

import asyncpg

from runtime import sql
from runtime.clock import to_ms
from tests.funds import fund_request
from tests.integration.wallet.fixtures import ENVELOPE, claim, ledger_rows, refund, wallet, wallet_database
from wallet.limits import MAX_INSTANT_MS

__all__ = ["ledger_rows", "wallet", "wallet_database"]


async def test_totals_are_the_sums_of_the_statement(wallet, ledger_rows):
    """Each kind is counted once, to the fen; what lies before the span or at its end is not."""
    await wallet.give("ann", 1000)
    for n in range(4):
        await wallet.batcher.submit(fund_request(f"k{n}", "f", "ann", 100, ENVELOPE + 1000 * n))
        await wallet.channel.pay([claim(0, "bob", 30 + n, ENVELOPE + 1000 * n)])
    await wallet.channel.pay([refund(1, "ann", 70)])
    instants = [row[0] for row in await ledger_rows.fetch("SELECT created_at FROM transfer ORDER BY transfer_id")]
    first, last = to_ms(instants[0]), to_ms(instants[-1]) + 1
    assert await wallet.history.totals("ann", first, last) == (0, 0, 4, 400, 70)
    assert await wallet.history.totals("bob", first, last) == (4, 30 + 31 + 32 + 33, 0, 0, 0)
    assert await wallet.history.totals("nobody", first, last) == (0, 0, 0, 0, 0)
    assert await wallet.history.totals("bob", last, last + 1000) == (0, 0, 0, 0, 0)
    for amount_fen, at in ((30, "2025-12-31 15:59:59.999Z"), (31, "2025-12-31 16:00Z")):
        await ledger_rows.execute(
            f"UPDATE transfer SET created_at = '{at}' WHERE kind = 2 AND amount_fen = {amount_fen}"
        )
    year = 1_767_196_800_000  # 2026-01-01T00:00+08:00
    assert await wallet.history.totals("bob", year, last) == (3, 31 + 32 + 33, 0, 0, 0)
    assert await wallet.history.totals("bob", 0, year) == (1, 30, 0, 0, 0)
    seen = await wallet.history.entries("bob", 0, 100)
    assert sum(row[3] for row in seen) == 30 + 31 + 32 + 33


async def test_a_user_with_many_receipts_is_read_from_the_index(databases, wallet, wallet_database):
    """The plan for any user is an index-only scan; after a vacuum no row of the table is fetched."""
    connection = await asyncpg.connect(databases.dsn_as(wallet_database, "postgres"))
    await connection.execute("INSERT INTO account (name, kind) SELECT 'user:u' || g, 0 FROM generate_series(1, 50) g")
    await connection.execute("""
        INSERT INTO transfer (debit_account, credit_account, user_account, amount_fen, envelope_id, kind, order_no)
        SELECT 0, u.account_id, u.account_id, 5, 26e17::bigint + g, 2, 'many' || g
        FROM generate_series(1, 20000) g
        JOIN account u ON u.name = 'user:u' || CASE WHEN g % 2 = 0 THEN 1 ELSE 2 + g % 49 END""")
    await connection.execute("VACUUM ANALYZE transfer")
    # As the wallet's readers have it (wallet/readers.py).
    await connection.execute("SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET jit = off")
    await connection.execute(f"PREPARE totals AS {sql.read('wallet', 'totals')}")
    explain = "EXPLAIN (ANALYZE, COSTS off, TIMING off) EXECUTE totals('user:u1', '2020-01-01', '2090-01-01')"
    plan = "\n".join(row[0] for row in await connection.fetch(explain))
    await connection.close()
    assert "Index Only Scan using transfer_statement on transfer" in plan
    assert "Heap Fetches: 0" in plan
    assert await wallet.history.totals("u1", 0, MAX_INSTANT_MS) == (10_000, 50_000, 0, 0, 0)
