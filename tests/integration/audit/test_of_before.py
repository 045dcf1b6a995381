# ruff: noqa: E501 - rows read best in one line
"""An installation of an earlier release: its databases are migrated as they stand, and its audit is clean."""

import shutil
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from audit.proof import AuditTarget, audit
from schema import migrate, names
from schema.day_tables import DayTables
from schema.migrate import migrate_set, migrate_wallet
from schema.names import TableKind
from tests.conftest import Databases
from tests.integration.rotation.fixtures import CLAIM, DAY, HEADER, NEXT, XXS, Books, books

HERE = Path(migrate.__file__).parent
BEFORE = {"set": "0007_constraints", "wallet": "0002_post"}
"""The newest migrations of the release before headers were bound to their money."""
FUND = ("envelope_id", "user_account", "total_fen", "created_at", "create_key", "fingerprint")


async def of_before(databases: Databases, tmp_path: Path, kind: str) -> str:
    """Return an empty database with the migrations of that release."""
    folder = tmp_path / kind
    folder.mkdir()
    for path in sorted((HERE / kind).glob("*.sql")):
        if path.stem <= BEFORE[kind]:
            shutil.copy(path, folder)
    dsn = await databases.empty()
    assert await migrate._migrate(dsn, folder)
    return dsn


async def write(dsn: str, made: Books, *, wallet: bool) -> None:
    """Write the books as that release would have left them."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute("SET session_replication_role = replica")
        if wallet:
            kinds = {"user": 0, "escrow": 1, "outside": 2}
            accounts: list[Any] = [
                (number, name, kinds[name.split(":")[0]], made.balances[name]) for name, number in made.accounts.items()
            ]
            await connection.executemany(
                "INSERT INTO account (account_id, name, kind, balance_fen) OVERRIDING SYSTEM VALUE VALUES ($1, $2, $3, $4)",
                accounts,
            )
            columns = [
                "debit_account",
                "credit_account",
                "user_account",
                "amount_fen",
                "envelope_id",
                "created_at",
                "kind",
                "order_no",
            ]
            await connection.copy_records_to_table("transfer", records=made.transfers, columns=columns)
            funds = [(one[0], one[1], one[2], one[4], one[5], one[6]) for one in made.funds]
            await connection.copy_records_to_table("fund", records=funds, columns=FUND)
        else:
            await connection.copy_records_to_table("envelope", records=made.headers, columns=HEADER)
            await connection.copy_records_to_table("claim", records=made.claims, columns=CLAIM)
            await connection.copy_records_to_table("due", records=made.dues, columns=("expires_at", "envelope_id"))
    finally:
        await connection.close()


@pytest.mark.timeout(240)
async def test_what_an_earlier_release_has_left_is_migrated_and_adds_up(databases: Databases, tmp_path: Path) -> None:
    """Hot and detached days get the new columns, each fund what is left of it, and the audit finds nothing wrong."""
    set_dsn = await of_before(databases, tmp_path, "set")
    wallet_dsn = await of_before(databases, tmp_path, "wallet")
    await DayTables(set_dsn, XXS).ensure(DAY, ahead_days=2)
    made = books()
    await write(set_dsn, made, wallet=False)
    await write(wallet_dsn, made, wallet=True)
    connection = await asyncpg.connect(set_dsn)
    later = names.day_table(TableKind.ENVELOPE, NEXT.replace(day=NEXT.day + 1))
    await connection.execute(f"ALTER TABLE envelope DETACH PARTITION {later}")
    assert "0009_bounds" in await migrate_set(set_dsn)
    assert "0003_bounds" in await migrate_wallet(wallet_dsn)
    assert await connection.fetchval(f"SELECT count(min_fen) + count(header_seal) FROM {later}") == 0
    await connection.execute(f"DROP TABLE {later}")
    await connection.close()
    slots = [slot for xx in XXS for slot in range(xx * 10, xx * 10 + 10)]
    report = await audit([AuditTarget("set-1", set_dsn, slots)], wallet_dsn)
    assert report.violations == []
    assert report.sums.envelopes == len(made.headers)
    assert report.sums.open_fen > 0
    of_day = await audit([AuditTarget("set-1", set_dsn, slots)], wallet_dsn, only=DAY)
    assert of_day.violations == []
    assert 0 < of_day.sums.envelopes < report.sums.envelopes
    wallet = await asyncpg.connect(wallet_dsn)
    assert await wallet.fetchval("SELECT sum(left_fen) FROM fund") == report.sums.open_fen
    with pytest.raises(asyncpg.CheckViolationError):
        await wallet.execute(
            "INSERT INTO fund (envelope_id, user_account, total_fen, left_fen, create_key, fingerprint, header_hash, draft) "
            "SELECT envelope_id + 1000, user_account, total_fen, left_fen, repeat('a', 32), '', '', '' FROM fund LIMIT 1"
        )
    await wallet.close()
