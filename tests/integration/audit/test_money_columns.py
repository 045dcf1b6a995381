"""Every column of every table with money or a rule in it, edited by hand in one row: the audit names what it is about.

Triggers are off for the edits, as for somebody who owns the database; what a CHECK or a unique key refuses even then is
edited to a value that it lets pass. A column that the audit does not read stands in UNREAD with the reason; a column in
neither list fails the test, so that a new one is thought about.
"""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import asyncpg
import pytest
import pytest_asyncio

from audit.proofs import Proofs
from audit.report import Report
from tests.integration.setnode.fixtures import Town, common_town, module_databases, shared_town, unswept
from wire.orders import escrow_account

__all__ = ["common_town", "module_databases", "shared_town"]
pytestmark = pytest.mark.asyncio(loop_scope="module")
TOWN = unswept

SET, WALLET = "set", "wallet"
TABLES = {
    SET: ("envelope", "claim", "due", "payout_batch", "payout_stuck", "fund_cursor", "guest"),
    WALLET: ("account", "transfer", "fund", "ledger_lock"),
}
ENVELOPE = "WHERE envelope_id = {open}"
CLAIM = "WHERE envelope_id = {open} AND seq = 1"
UNOPENED = "WHERE envelope_id = {unopened} AND kind = 'canceled'"
NAMED = "WHERE envelope_id = {named} AND user_id = 'guest0'"
CLOSING = "WHERE envelope_id = {canceled} AND kind = 'canceled'"
CREDIT = "WHERE order_no = '{open}.1'"
REFUND = "WHERE order_no = '{canceled}.1'"
FUNDING = "WHERE order_no = 'F' || (SELECT create_key FROM fund WHERE envelope_id = {open})"
DEPOSIT = "WHERE kind = 0 AND user_account = (SELECT account_id FROM account WHERE name = 'user:ann')"
OTHER = "(SELECT account_id FROM account WHERE name = 'user:s0')"


class Edit(NamedTuple):
    """One edit of one row: `SET column = value` where it is that row."""

    table: str
    column: str
    value: str
    where: str

    @property
    def statement(self) -> str:
        return f"UPDATE {self.table} SET {self.column} = {self.value} {self.where}"


def _edits(table: str, where: str, **values: str) -> list[Edit]:
    return [Edit(table, column, value, where) for column, value in values.items()]


SET_EDITS = [
    *_edits(
        "envelope", ENVELOPE,
        envelope_id="envelope_id + 1000", total_fen="total_fen + 1", shares="shares + 1", seed="repeat('ab', 32)",
        kind="'equal'", split="'bell'", split_version="1", sender="'eve'", created_at="created_at - interval '1 s'",
        opens_at="opens_at - interval '1 s'", expires_at="expires_at + interval '1 h'",
        password_mac="repeat('ab', 32)", named="true", create_key="repeat('ab', 16)", greeting="'另外'", min_fen="1",
        max_fen="total_fen", slot="(slot + 1) % 30",
    ),
    *_edits(
        "claim", CLAIM,
        envelope_id="envelope_id + 1000", amount_fen="amount_fen + 1", seq="3", shares="9", kind="'expired'",
        user_id="'thief'", claimed_at="claimed_at + interval '30 days'", slot="(slot + 1) % 30",
    ),
    *_edits(
        "claim", CLOSING,
        amount_fen="amount_fen - 1", kind="'open'", user_id="'thief'", seq="seq + 1",
        claimed_at="claimed_at - interval '1 day'",
    ),
    *_edits("claim", CLOSING, kind="'undone'"),
    *_edits("claim", UNOPENED, kind="'undone'"),
    *_edits(
        "guest", NAMED,
        user_id="'mallory'", invited="false", envelope_id="envelope_id + 1000", slot="(slot + 10) % 30",
    ),
    *_edits("due", ENVELOPE, envelope_id="envelope_id + 1000", expires_at="expires_at + interval '1 h'"),
    *_edits("payout_batch", "", envelope_ids="'{{{sold}}}'", seqs="'{{4}}'", created_at="created_at - interval '1 h'"),
    *_edits("payout_batch", "", created_at="created_at + interval '2 days'"),
]  # fmt: skip
WALLET_EDITS = [
    *_edits("account", "WHERE name = 'user:o1'", name="'user:o1x'", balance_fen="balance_fen + 1"),
    *_edits("account", "WHERE name = '{escrow}'", balance_fen="balance_fen + 1", name="name || '0'"),
    *_edits("account", "WHERE name = 'outside'", balance_fen="balance_fen - 1"),
    *(
        edit
        for where in (CREDIT, REFUND)
        for edit in _edits(
            "transfer", where,
            debit_account=OTHER, credit_account=OTHER, user_account=OTHER, amount_fen="amount_fen + 1",
            envelope_id="envelope_id + 1000", kind="5 - kind", order_no="'X1'",
        )
    ),
    *_edits(
        "transfer", FUNDING,
        debit_account=f"{OTHER}, user_account = {OTHER}", credit_account=OTHER, amount_fen="amount_fen + 1",
        envelope_id="envelope_id + 1000", order_no="'X1'",
    ),
    *_edits(
        "transfer", DEPOSIT,
        debit_account=OTHER, credit_account=f"{OTHER}, user_account = {OTHER}", amount_fen="amount_fen + 1",
    ),
    *_edits(
        "fund", ENVELOPE,
        envelope_id="envelope_id + 1000", user_account=OTHER, total_fen="total_fen + 1", left_fen="left_fen + 1",
        create_key="repeat('ab', 16)", header_hash="sha256('x')",
    ),
]  # fmt: skip
UNREAD = {
    "envelope.header_seal": "setnodes check it at load; the audit compares the hash, and names what is not closed",
    "payout_batch.batch_id": "a name: nothing depends on it",
    "payout_batch.server": "says who pays first; another server takes the batch over in time",
    "payout_stuck.envelope_id": "that the row is there is a violation by itself, and so is a claim without it",
    "payout_stuck.seq": "as above",
    "payout_stuck.attempts": "shown to the operator alone",
    "payout_stuck.stuck_at": "shown to the operator alone",
    "payout_stuck.reason": "shown to the operator alone",
    "payout_stuck.amount_fen": "a gauge; the payout is made from the claim",
    "fund_cursor.only_row": "the key of the one row",
    "fund_cursor.after": "what a wrong cursor leaves behind is found: fund_has_envelope",
    "guest.wrong_tries": "how often a user has tried a wrong password; moves no money",
    "account.account_id": "Postgres generates it and refuses another",
    "account.kind": "a CHECK ties it to the name",
    "transfer.transfer_id": "the order of a statement",
    "transfer.created_at": "shown in a statement; no rule goes by it",
    "fund.fund_id": "the order in which sweepers read",
    "fund.created_at": "how long a create without a header counts as in flight; with its header nothing goes by it",
    "fund.fingerprint": "tells a repeat from another request; moves no money",
    "fund.draft": "what a repeat of a half-made create needs; its hash is compared",
}


class Ground(NamedTuple):
    """A running SET with an open, a sold and a canceled envelope, and one payout that waits."""

    town: Town
    words: dict[str, Any]
    proofs: Path | None = None

    async def audit(self) -> Report:
        """Audit, with what is known of earlier audits, if that is kept."""
        return await self.town.audit(proofs=None if self.proofs is None else Proofs(self.proofs, b"the key of proofs"))

    def about(self) -> set[str]:
        """What the edits are about: a violation names one of these."""
        words, numbered = self.words, self.words["open"]
        accounts = {"outside", "user:o1", "user:o1x", "user:s0", "user:ann", escrow_account(words["canceled"])}
        return {str(word) for word in words.values()} | accounts | {
            "wallet", str(numbered + 1000), escrow_account(numbered) + "0"
        }  # fmt: skip

    async def edited(self, where: str, edit: Edit) -> set[tuple[str, str]]:
        """Return what an audit reports after the edit; the row is as it was when this returns."""
        town = self.town
        connection = await asyncpg.connect(town.wallet_dsn if where == WALLET else town.set_dsn)
        try:
            await connection.execute("SET session_replication_role = replica")
            before = await self._rows(connection, edit.table)
            done = await connection.execute(edit.statement.format(**self.words))
            assert done == "UPDATE 1", edit
            try:
                return {(one.check, one.subject) for one in (await self.audit()).violations}
            finally:
                await self._put_back(connection, edit.table, before)
        finally:
            await connection.close()

    async def _rows(self, connection: Any, table: str) -> str:
        return await connection.fetchval(f"SELECT coalesce(json_agg(t), '[]')::text FROM {table} t")

    async def _put_back(self, connection: Any, table: str, before: str) -> None:
        columns = ", ".join(json.loads(before)[0])
        rows = f"SELECT {columns} FROM json_populate_recordset(NULL::{table}, $1::json)"
        async with connection.transaction():
            await connection.execute(f"DELETE FROM {table}")
            await connection.execute(f"INSERT INTO {table} ({columns}) OVERRIDING SYSTEM VALUE {rows}", before)


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def ground(shared_town: Town) -> AsyncIterator[Ground]:
    town = shared_town
    ids = {name: await town.create(1_000, 5, sender=name) for name in ("ann", "bob", "cid")}
    for n in range(3):
        await town.open(ids["ann"], f"o{n}")
    for n in range(5):
        await town.open(ids["bob"], f"s{n}")
    await town.open(ids["cid"], "c0")
    await town.cancel(ids["cid"], "cid")
    unopened = await town.create(1_000, 5, sender="una")
    await town.cancel(unopened, "una")
    named = await town.create(1_000, 2, sender="nat", to=["guest0", "guest1"])
    await town.paid_out()
    with town.nothing_paid():
        waiting = await town.create(100, 2, sender="dan")
        await town.open(waiting, "d0")
        yield Ground(
            town,
            {
                "open": ids["ann"], "sold": ids["bob"], "canceled": ids["cid"], "waiting": waiting,
                "unopened": unopened, "named": named,
                "escrow": escrow_account(ids["ann"]),
            },
        )  # fmt: skip


ALL = [*((SET, edit) for edit in SET_EDITS), *((WALLET, edit) for edit in WALLET_EDITS)]


async def test_nothing_is_reported_before(ground: Ground) -> None:
    """With one payout on its way everything adds up."""
    assert (await ground.town.audit()).violations == []


@pytest.mark.parametrize(
    ("where", "edit"), ALL, ids=[f"{edit.table}.{edit.column}-{number}" for number, (_, edit) in enumerate(ALL)]
)
async def test_an_edit_of_one_row_is_named(ground: Ground, where: str, edit: Edit) -> None:
    """The audit reports it, and of the envelope, order or account that was edited."""
    found = await ground.edited(where, edit)
    assert found, edit
    assert {subject for _, subject in found} & ground.about(), found


async def test_everything_adds_up_after_the_way_back(ground: Ground) -> None:
    """With all rows as they were the audit is clean again."""
    assert (await ground.town.audit()).violations == []


async def test_every_column_is_edited_or_has_a_reason(ground: Ground) -> None:
    """A column of a money table that no edit above covers, and no reason excuses, is a blind spot."""
    covered = {f"{edit.table}.{edit.column}" for _, edit in ALL} | UNREAD.keys()
    for where, tables in TABLES.items():
        connection = await asyncpg.connect(ground.town.wallet_dsn if where == WALLET else ground.town.set_dsn)
        rows = await connection.fetch(
            "SELECT table_name || '.' || column_name FROM information_schema.columns "
            "WHERE table_schema = 'public' AND table_name = ANY($1)",
            list(tables),
        )
        await connection.close()
        assert {row[0] for row in rows} - covered == set()
