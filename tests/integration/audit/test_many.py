"""More violations than a report keeps: all of them are counted, with their fen."""

from audit.proof import AuditTarget, audit
from audit.report import MOST_SHOWN
from schema import roles
from tests.integration.rotation.fixtures import OldDays, old_days

__all__ = ["old_days"]

MANY = MOST_SHOWN + 500
BALANCES = """
INSERT INTO account (name, kind, balance_fen) SELECT 'user:w' || n, 0, 100 FROM generate_series(1, $1::int) n
"""
ESCROWS = """
INSERT INTO account (name, kind, balance_fen)
SELECT format('escrow:%s:%s', 990101 + n / 900, 100 + n % 900), 1, 100 FROM generate_series(1, $1::int) n
"""
DEPOSITS = """
INSERT INTO transfer (debit_account, credit_account, user_account, amount_fen, envelope_id, kind, order_no)
SELECT debit_account, credit_account, user_account, 100, 1, 2, 'w' || n
FROM (SELECT * FROM transfer WHERE kind = 2 LIMIT 1) t, generate_series(1, $1::int) n
"""


async def test_all_are_counted(old_days: OldDays) -> None:
    """Wrong balances, wrong escrows, transfers that nothing accounts for.

    An operator who reads how much is wrong must not take a disaster for a small one.
    """
    for statement in (BALANCES, ESCROWS, DEPOSITS):
        await old_days.rows(statement, MANY, wallet=True)
    own, wallet = (old_days.databases.dsn_as(dsn, roles.AUDIT) for dsn in (old_days.set_dsn, old_days.wallet_dsn))
    report = await audit([AuditTarget("set-1", own, range(20))], wallet)
    assert len(report.violations) == MOST_SHOWN
    # Each of the escrows is also a balance without transfers. Beside them: both accounts of the transfers, the sum.
    assert report.count == 4 * MANY + 3
    assert report.unreconciled_fen == (4 * MANY + 2 * MANY + 2 * MANY) * 100
