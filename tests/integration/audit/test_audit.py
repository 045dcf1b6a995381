# ruff: noqa: E501 - one edit a line reads best
"""The audit: silent beside any honest traffic, and whatever is edited by hand it finds and names."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import timedelta
from urllib.parse import urlsplit

import asyncpg
import pytest
import pytest_asyncio

from audit import matching, proof
from audit.proof import AuditTarget
from audit.report import Report
from errors import HongbaoError, Refused
from sharding.ids import business_date
from tests.integration.setnode.fixtures import SMALL, Town, common_town, module_databases, shared_town, unswept
from wire.orders import escrow_account

__all__ = ["common_town", "module_databases", "shared_town"]
pytestmark = pytest.mark.asyncio(loop_scope="module")
TOWN = unswept


@pytest.fixture
def town(common_town: Town) -> Town:
    return common_town


async def test_no_false_alarm_beside_live_traffic(town: Town) -> None:
    """Audit after audit while envelopes are made, opened on both servers, expire, are canceled and paid out."""
    busy = True

    async def people(number: int) -> None:
        envelopes = 0
        while busy:
            envelopes += 1
            sender = f"live{number}-{envelopes}"
            envelope_id = await town.create(500, 10, sender=sender, expires_in_s=1)
            for n in range(8):
                with contextlib.suppress(HongbaoError):
                    await town.open(envelope_id, f"u{n}", node=town.nodes[n % 2])
            if envelopes % 3 == 0:
                with contextlib.suppress(HongbaoError):
                    await town.cancel(envelope_id, sender)

    crowd = [asyncio.ensure_future(people(number)) for number in range(6)]
    reports = [await town.audit() for _ in range(15)]
    busy = False
    await asyncio.gather(*crowd)
    async with asyncio.timeout(20):
        while await town.scalar("SELECT count(*) FROM due"):
            await asyncio.sleep(0.05)  # the edits below need a town at rest
    assert [report.violations for report in reports] == [[]] * 15
    assert reports[-1].sums.envelopes > reports[0].sums.envelopes
    assert any(report.sums.in_flight for report in reports)


class Edited:
    """A town at rest whose rows can be edited by hand; every edit is taken back afterwards."""

    def __init__(self, town: Town, open_id: int, sold_id: int, canceled_id: int) -> None:
        self.town = town
        self.open_id, self.sold_id, self.canceled_id = open_id, sold_id, canceled_id

    async def _run(self, dsn: str, statements: list[str]) -> None:
        connection = await asyncpg.connect(dsn)
        try:
            async with connection.transaction():
                for statement in statements:
                    await connection.execute(statement)
        finally:
            await connection.close()

    async def audit_with(self, edits: list[str], *, wallet: bool = False, provider: bool = False) -> Report:
        """Apply `edits`, audit, put every touched table back as it was."""
        dsn = self.town.wallet_dsn if wallet else self.town.set_dsn
        names = (
            ("account", "transfer", "fund") if wallet else ("envelope", "claim", "due", "payout_batch", "payout_stuck")
        )
        keep = [f"CREATE TABLE kept_{name} AS TABLE {name}" for name in names]
        put_back = []
        for name in names:
            identity = name in ("account", "transfer", "fund", "payout_batch")
            how = "OVERRIDING SYSTEM VALUE" if identity else ""
            columns = ", ".join(await self._columns(dsn, name))
            put_back += [
                f"DELETE FROM {name}",
                f"INSERT INTO {name} ({columns}) {how} SELECT {columns} FROM kept_{name}",
            ]
            put_back.append(f"DROP TABLE kept_{name}")
        await self._run(dsn, keep)
        try:
            await self._run(dsn, edits)
            return await self.town.audit(provider=provider)
        finally:
            await self._run(dsn, put_back)

    async def _columns(self, dsn: str, name: str) -> list[str]:
        connection = await asyncpg.connect(dsn)
        try:
            rows = await connection.fetch(
                "SELECT attname FROM pg_attribute WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped",
                name,
            )
        finally:
            await connection.close()
        return [row["attname"] for row in rows]


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def edited(shared_town: Town) -> AsyncIterator[Edited]:
    town = shared_town
    open_id = await town.create(1_000, 5, sender="ann")
    sold_id = await town.create(300, 3, sender="bob")
    canceled_id = await town.create(500, 5, sender="cid")
    for n in range(3):
        await town.open(open_id, f"o{n}")
        await town.open(sold_id, f"s{n}")
    await town.open(canceled_id, "c0")
    await town.cancel(canceled_id, "cid")
    await town.paid_out()
    yield Edited(town, open_id, sold_id, canceled_id)


OPEN = "WHERE envelope_id = {open_id}"
SET_EDITS = [
    ("a claim's amount", "amount_follows_seed", "open_id", ["UPDATE claim SET amount_fen = amount_fen + 1 " + OPEN + " AND seq = 1"]),
    ("a claim's user", "credit_matches_claim", "open_id", ["UPDATE claim SET user_id = 'thief' " + OPEN + " AND seq = 1"]),
    ("a claim in the middle deleted", "log_is_dense", "open_id", ["DELETE FROM claim " + OPEN + " AND seq = 1"]),
    ("the last claim deleted", "credit_has_claim", "open_id", ["DELETE FROM claim " + OPEN + " AND seq = 2"]),
    ("an extra claim", "claim_is_paid_or_waiting", "open_id", ["{extra}"]),
    ("an extra claim of another amount", "amount_follows_seed", "open_id", ["{extra_fen}"]),
    ("a refund made smaller", "amount_follows_seed", "canceled_id",
     ["UPDATE claim SET amount_fen = amount_fen - 1 WHERE envelope_id = {canceled_id} AND kind = 'canceled'"]),
    ("a closing deleted", "credit_has_claim", "canceled_id",
     ["DELETE FROM claim WHERE envelope_id = {canceled_id} AND kind = 'canceled'"]),
    ("a claim's count of shares", "claim_knows_shares", "open_id", ["UPDATE claim SET shares = 9 " + OPEN + " AND seq = 0"]),
    ("an envelope's total", "amount_follows_seed", "open_id", ["UPDATE envelope SET total_fen = 2000 " + OPEN]),
    ("an envelope's sender", "fund_matches_envelope", "open_id", ["UPDATE envelope SET sender = 'eve' " + OPEN]),
    ("an envelope's seed", "amount_follows_seed", "open_id", ["UPDATE envelope SET seed = repeat('ab', 32) " + OPEN]),
    ("an envelope's split", "header_is_readable", "open_id", ["UPDATE envelope SET split = 'mine' " + OPEN]),
    ("an envelope deleted", "claim_has_envelope", "open_id", ["DELETE FROM envelope " + OPEN]),
    ("what closes it deleted", "open_envelope_is_due", "open_id", ["DELETE FROM due " + OPEN]),
    ("an intent without a claim", "intent_has_claim", "open_id",
     ["INSERT INTO payout_stuck VALUES ({open_id}, 4, 1, now(), 'by hand')"]),
    ("an intent without an envelope", "intent_has_claim", "open_id",
     ["INSERT INTO payout_stuck VALUES ({open_id} + 1000, 0, 1, now(), 'by hand')" ]),
]  # fmt: skip


@pytest.mark.parametrize(("what", "check", "subject", "edits"), SET_EDITS, ids=[edit[0] for edit in SET_EDITS])
async def test_every_edit_in_a_set_is_found_and_named(edited: Edited, what, check, subject, edits) -> None:
    """A row changed, deleted or inserted by hand breaks the named check, and the envelope is named."""
    envelope_id = getattr(edited, subject)
    if what == "an intent without an envelope":
        envelope_id += 1000
    seq, fen = 3, await next_share(edited)
    row = "INSERT INTO claim SELECT envelope_id, {fen}, now(), {seq}, 5, slot, 'open', 'extra' FROM envelope " + OPEN
    words = {
        "open_id": edited.open_id, "canceled_id": edited.canceled_id,
        "extra": row.format(fen=fen, seq=seq, open_id=edited.open_id),
        "extra_fen": row.format(fen=fen + 1, seq=seq, open_id=edited.open_id),
    }  # fmt: skip
    report = await edited.audit_with([edit.format(**words) for edit in edits])
    assert (check, str(envelope_id)) in {(one.check, one.subject) for one in report.violations}
    assert {one.subject for one in report.violations} == {str(envelope_id)}
    assert not report.holds


async def next_share(edited: Edited) -> int:
    owner = edited.town.owner(edited.open_id)
    await edited.town.grab(edited.open_id, "o0")
    return owner.registry._actors[edited.open_id].log.amounts[3]


ORDER = "WHERE order_no = '{open_id}.1'"
STRAY = (
    "INSERT INTO transfer (debit_account, credit_account, user_account, amount_fen, envelope_id, kind, order_no) "
    "SELECT debit_account, credit_account, user_account, 1, {envelope}, 2, '{order}' FROM transfer " + ORDER
)
UNKNOWN_DAY = 2001010000000001007
WALLET_EDITS = [
    ("a credit deleted", "claim_is_paid_or_waiting", "{open_id}", ["DELETE FROM transfer " + ORDER]),
    ("a credit's amount", "credit_matches_claim", "{open_id}", ["UPDATE transfer SET amount_fen = amount_fen + 5 " + ORDER]),
    ("a credit's receiver", "credit_matches_claim", "{open_id}",
     ["UPDATE transfer SET user_account = (SELECT account_id FROM account WHERE name = 'user:o2') " + ORDER]),
    ("a credit out of another escrow", "credit_matches_claim", "{open_id}",
     ["UPDATE transfer SET debit_account = (SELECT account_id FROM account WHERE name = 'outside') " + ORDER]),
    ("a balance", "balance_is_sum_of_transfers", "user:o1", ["UPDATE account SET balance_fen = balance_fen + 1 WHERE name = 'user:o1'"]),
    ("money out of nothing", "postings_sum_to_zero", "wallet", ["UPDATE account SET balance_fen = balance_fen + 1 WHERE name = 'user:o1'"]),
    ("two balances", "balance_is_sum_of_transfers", "user:o1",
     ["UPDATE account SET balance_fen = balance_fen + 1 WHERE name = 'user:o1'",
      "UPDATE account SET balance_fen = balance_fen - 1 WHERE name = 'user:o2'"]),
    ("an account deleted", "balance_is_sum_of_transfers", None, ["DELETE FROM account WHERE name = 'user:o1'"]),
    ("a fund deleted", "envelope_has_fund", "{open_id}", ["DELETE FROM fund WHERE envelope_id = {open_id}"]),
    ("a fund's amount", "fund_matches_envelope", "{open_id}", ["UPDATE fund SET total_fen = 2000 WHERE envelope_id = {open_id}"]),
    ("a credit for a share nobody opened", "credit_has_claim", "{open_id}", [STRAY.replace("{envelope}", "{open_id}").replace("{order}", "{open_id}.4")]),
    ("a credit under a made-up number", "credit_has_claim", "{open_id}", [STRAY.replace("{envelope}", "{open_id}").replace("{order}", "X1")]),
    ("a credit of a day without tables", "credit_has_claim", str(UNKNOWN_DAY),
     [STRAY.replace("{envelope}", str(UNKNOWN_DAY)).replace("{order}", f"{UNKNOWN_DAY}.0")]),
    ("a credit of a slot that no SET holds", "credit_has_claim", "{elsewhere}",
     [STRAY.replace("{envelope}", "{elsewhere}").replace("{order}", "{elsewhere}.0")]),
    ("a fund of a day without tables", "fund_has_envelope", str(UNKNOWN_DAY),
     ["UPDATE fund SET envelope_id = " + str(UNKNOWN_DAY) + ", created_at = now() - interval '1 hour' WHERE envelope_id = {canceled_id}"]),
    ("an old fund without an envelope", "fund_has_envelope", "{beside}",
     ["UPDATE fund SET envelope_id = {beside}, created_at = now() - interval '1 hour' WHERE envelope_id = {open_id}"]),
]  # fmt: skip


@pytest.mark.parametrize(("what", "check", "subject", "edits"), WALLET_EDITS, ids=[edit[0] for edit in WALLET_EDITS])
async def test_every_edit_in_the_wallet_is_found_and_named(edited: Edited, what, check, subject, edits) -> None:
    """A transfer, balance or fund changed, deleted or made up breaks the named check, and what it is about is named."""
    words = {
        "open_id": edited.open_id, "canceled_id": edited.canceled_id, "beside": edited.open_id + 1000,
        "elsewhere": edited.open_id // 1000 * 1000 + 777,
    }  # fmt: skip
    report = await edited.audit_with([edit.format(**words) for edit in edits], wallet=True)
    found = {(one.check, one.subject) for one in report.violations}
    if subject is None:
        assert check in {one for one, _ in found}
    else:
        assert (check, subject.format(**words)) in found
    assert not report.holds


# Edits that keep all balances the sums of their transfers: only what a transfer is for can tell that they are wrong.
def _moved(amount: str, since: str, to: str) -> list[str]:
    return [
        f"UPDATE account SET balance_fen = balance_fen {sign} {amount} WHERE {where}"
        for sign, where in (("-", since), ("+", to))
    ]


ACCOUNT = "(SELECT account_id FROM account WHERE name = '{name}')"
CREDIT_FEN = "(SELECT amount_fen FROM transfer WHERE order_no = '{open_id}.1')"
FUND_ORDER = "'F' || (SELECT create_key FROM fund WHERE envelope_id = {open_id})"
TO_PROVIDER = [
    "INSERT INTO account (name, kind) VALUES ('channel:provider', 3)",
    "UPDATE transfer SET credit_account = " + ACCOUNT.format(name="channel:provider") + " " + ORDER,
    *_moved(CREDIT_FEN, "name = 'user:o1'", "name = 'channel:provider'"),
]
QUIET_EDITS = [
    ("a payout credited to another user", "credit_matches_claim", "{open_id}",
     ["UPDATE transfer SET credit_account = " + ACCOUNT.format(name="user:o2") + " " + ORDER,
      *_moved(CREDIT_FEN, "name = 'user:o1'", "name = 'user:o2'")]),
    ("a payout credited to a made-up channel", "credit_matches_claim", "{open_id}",
     ["INSERT INTO account (name, kind) VALUES ('channel:evil', 3)",
      "UPDATE transfer SET credit_account = " + ACCOUNT.format(name="channel:evil") + " " + ORDER,
      *_moved(CREDIT_FEN, "name = 'user:o1'", "name = 'channel:evil'")]),
    ("a payout credited to a provider that is not there", "credit_matches_claim", "{open_id}", TO_PROVIDER),
    ("a fund paid by another user", "fund_matches_envelope", "{open_id}",
     ["UPDATE transfer SET debit_account = " + ACCOUNT.format(name="user:bob") + ", user_account = "
      + ACCOUNT.format(name="user:bob") + " WHERE order_no = " + FUND_ORDER,
      "INSERT INTO transfer (debit_account, credit_account, user_account, amount_fen, kind, order_no) SELECT " + ACCOUNT.format(name="outside")
      + ", " + ACCOUNT.format(name="user:bob") + ", " + ACCOUNT.format(name="user:bob") + ", 1000, 0, 'Dquiet'",
      *_moved("1000", "name = 'outside'", "name = 'user:ann'")]),
    ("a deposit out of a user", "deposit_is_from_outside", "Dquiet",
     ["INSERT INTO transfer (debit_account, credit_account, user_account, amount_fen, kind, order_no) SELECT " + ACCOUNT.format(name="user:o1")
      + ", " + ACCOUNT.format(name="user:o2") + ", " + ACCOUNT.format(name="user:o2") + ", 1, 0, 'Dquiet'",
      *_moved("1", "name = 'user:o1'", "name = 'user:o2'")]),
    ("a deposit out of an escrow", "escrow_is_what_is_left", "{escrow}",
     ["INSERT INTO transfer (debit_account, credit_account, user_account, amount_fen, kind, order_no) SELECT " + ACCOUNT.format(name="{escrow}")
      + ", " + ACCOUNT.format(name="user:o2") + ", " + ACCOUNT.format(name="user:o2") + ", 1, 0, 'Dquiet'",
      *_moved("1", "name = '{escrow}'", "name = 'user:o2'")]),
]  # fmt: skip


@pytest.mark.parametrize(("what", "check", "subject", "edits"), QUIET_EDITS, ids=[edit[0] for edit in QUIET_EDITS])
async def test_money_in_a_wrong_account_is_found_though_all_sums_agree(
    edited: Edited, what, check, subject, edits
) -> None:
    """Transfer and both balances are edited together; the audit still names what the transfer is not for."""
    words = {"open_id": edited.open_id, "escrow": escrow_account(edited.open_id)}
    off = ["SET LOCAL session_replication_role = replica"]  # the trigger refuses such deposits
    report = await edited.audit_with(off + [edit.format(**words) for edit in edits], wallet=True)
    found = {(one.check, one.subject) for one in report.violations}
    assert (check, subject.format(**words)) in found
    assert not {"balance_is_sum_of_transfers", "postings_sum_to_zero"} & {one for one, _ in found}


async def test_a_provider_may_have_paid_where_there_is_one(edited: Edited) -> None:
    """`provider` (`hongbao audit --provider`) lets claims be paid through its account, and nothing else."""
    edits = [edit.format(open_id=edited.open_id) for edit in TO_PROVIDER]
    assert (await edited.audit_with(edits, wallet=True, provider=True)).violations == []


async def test_the_seed_of_an_envelope_that_nobody_opened_is_bound_to_its_money(edited: Edited) -> None:
    """Replaced before it determined an amount, it is not the one that was paid for."""
    envelope_id = await edited.town.create(700, 3, sender="eve")
    report = await edited.audit_with([f"UPDATE envelope SET seed = repeat('ab', 32) WHERE envelope_id = {envelope_id}"])
    assert [(one.check, one.subject) for one in report.violations] == [
        ("header_is_what_was_paid_for", str(envelope_id))
    ]


async def test_an_intent_deleted_before_it_was_paid_is_found(town: Town) -> None:
    """The claim is neither paid, nor waiting, nor stuck: the order is named. With the row back, all is well."""
    with town.nothing_paid():
        envelope_id = await town.create(100, 2, sender="dan")
        await town.open(envelope_id, "d0")
        assert (await town.audit()).sums.in_flight == 1
        rows = await town.rows("DELETE FROM payout_batch RETURNING *")
        report = await town.audit()
        for row in rows:
            await town.scalar(
                "INSERT INTO payout_batch OVERRIDING SYSTEM VALUE VALUES ($1, $2, $3, $4, $5)", *row.values()
            )
    assert [(one.check, one.subject) for one in report.violations] == [("claim_is_paid_or_waiting", str(envelope_id))]
    assert f"{envelope_id}.0" in report.violations[0].detail


async def test_a_payout_that_is_late_or_stuck_is_a_violation(edited: Edited) -> None:
    """Everything adds up only if what is won is paid: the envelope whose payout waits too long, or for good, is named."""
    town = edited.town
    with town.nothing_paid(), pytest.MonkeyPatch.context() as patch:
        envelope_id = await town.create(100, 2, sender="fay")
        await town.open(envelope_id, "f0")
        assert (await town.audit()).violations == []
        patch.setattr(proof, "LATE_S", -1.0)
        report = await town.audit()
        assert [(one.check, one.subject) for one in report.violations] == [("payout_is_in_time", str(envelope_id))]
    await town.paid_out()
    columns = "(envelope_id, seq, attempts, stuck_at, reason)"
    report = await edited.audit_with(
        [f"INSERT INTO payout_stuck {columns} VALUES ({edited.sold_id}, 1, 1, now(), 'by hand')"]
    )
    assert [(one.check, one.subject) for one in report.violations] == [("payout_is_not_stuck", str(edited.sold_id))]


async def test_a_young_fund_without_an_envelope_is_in_flight(edited: Edited, monkeypatch) -> None:
    """A create between its money and its header is no violation until the sweeper should have undone it."""
    paid = await edited.town.create(700, 2, sender="dan")
    edits = [
        f"UPDATE fund SET envelope_id = {paid + 1000} WHERE envelope_id = {paid}",
        f"UPDATE transfer SET envelope_id = {paid + 1000} WHERE envelope_id = {paid} AND kind = 1",
    ]
    report = await edited.audit_with(edits, wallet=True)
    assert {one.check for one in report.violations} == {"envelope_has_fund"}
    monkeypatch.setattr(matching, "PENDING_S", -1.0)
    report = await edited.audit_with(edits, wallet=True)
    assert ("fund_has_envelope", str(paid + 1000)) in {(one.check, one.subject) for one in report.violations}


async def _young_fund(edited: Edited, envelope_id: int, edit: str = "kind = 1", created_at: str = "now()") -> Report:
    """Audit with a fund of 700 fen without a header, paid by user u0; `edit` is done to its transfer."""
    names = "debit_account, credit_account, user_account, amount_fen"
    fund = (
        "INSERT INTO fund (create_key, fingerprint, user_account, total_fen, left_fen, envelope_id, header_hash, draft,"
        " created_at) SELECT repeat('cd', 16), fingerprint, u.account_id, 700, 700,"
        f" {envelope_id}, header_hash, '', {created_at} FROM fund, account u"
        f" WHERE fund.envelope_id = {edited.open_id} AND u.name = 'user:u0'"
    )
    transfer = (
        f"INSERT INTO transfer (order_no, kind, envelope_id, {names}) SELECT 'F' || repeat('cd', 16), 1,"
        f" {envelope_id}, u.account_id, e.account_id, u.account_id, 700 FROM account u, account e"
        f" WHERE u.name = 'user:u0' AND e.name = '{escrow_account(edited.open_id)}'"
    )
    edit = f"UPDATE transfer SET {edit} WHERE order_no = 'F' || repeat('cd', 16)"
    return await edited.audit_with([fund, transfer, edit], wallet=True)


async def test_a_young_fund_whose_money_is_not_in_escrow_is_no_create_in_flight(edited: Edited) -> None:
    """However young: its transfer goes from its user into the escrow of its day and slot, and it is not of tomorrow."""
    await edited.town.deposit("u0", 1)
    await edited.town.deposit("u1", 1)
    young = edited.open_id + 1000
    foreign = edited.open_id + 20_000_000_000_000 * 10  # of a day that no SET has
    other = "(SELECT account_id FROM account WHERE name = 'user:u1')"
    for envelope_id in (young, foreign):
        for edit in (f"credit_account = {other}", f"debit_account = {other}, user_account = {other}", "amount_fen = 1"):
            report = await _young_fund(edited, envelope_id, edit)
            found = {(one.check, one.subject) for one in report.violations}
            assert ("fund_has_envelope", str(envelope_id)) in found, (edit, found)
    honest = await _young_fund(edited, young)
    assert not {one.check for one in honest.violations} & {"fund_has_envelope", "transfer_has_fund"}
    of_tomorrow = await _young_fund(edited, young, created_at="now() + interval '23 h'")
    assert ("fund_has_envelope", str(young)) in {(one.check, one.subject) for one in of_tomorrow.violations}


async def test_a_deposit_of_less_than_nothing_is_named(edited: Edited) -> None:
    """A negative deposit takes money out of a user's wallet; a CHECK forbids it, and the audit asks again."""
    rows = (
        "INSERT INTO transfer (order_no, kind, debit_account, credit_account, user_account, amount_fen) SELECT 'D-less',"
        " 0, o.account_id, u.account_id, u.account_id, -5 FROM account o, account u"
        " WHERE o.name = 'outside' AND u.name = 'user:u0'"
    )
    town = edited.town
    checks = "SELECT conname FROM pg_constraint WHERE conrelid = 'transfer'::regclass AND contype = 'c'"
    connection = await asyncpg.connect(town.wallet_dsn)
    try:
        dropped = {
            row["conname"]: row["told"]
            for row in await connection.fetch(
                checks.replace("conname", "conname, pg_get_constraintdef(oid) AS told", 1)
            )
        }
        for name in dropped:
            await connection.execute(f"ALTER TABLE transfer DROP CONSTRAINT {name}")
        try:
            report = await edited.audit_with([rows], wallet=True)
        finally:
            for name, told in dropped.items():
                await connection.execute(f"ALTER TABLE transfer ADD CONSTRAINT {name} {told}")
    finally:
        await connection.close()
    assert ("deposit_is_from_outside", "D-less") in {(one.check, one.subject) for one in report.violations}


async def test_a_policy_that_hides_rows_ends_the_audit(edited: Edited) -> None:
    """An owner who hides rows from the audit's role by row security does not get a clean report."""
    town = edited.town
    target = AuditTarget("set-1", town.set_dsn, range(SMALL.slots))
    connection = await asyncpg.connect(town.wallet_dsn)
    parts = urlsplit(town.wallet_dsn)
    reader = parts._replace(netloc=f"hidden_from:secret@{parts.netloc.rpartition('@')[2]}").geturl()
    try:
        await connection.execute("CREATE ROLE hidden_from LOGIN PASSWORD 'secret'")
        await connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO hidden_from")
        assert (await proof.audit([target], reader)).violations == []
        await connection.execute("ALTER TABLE account ENABLE ROW LEVEL SECURITY")
        with pytest.raises(Refused, match="row-level security") as refused:
            await proof.audit([target], reader)
        assert refused.value.code == "audit_may_not_read"
    finally:
        await connection.execute("ALTER TABLE account DISABLE ROW LEVEL SECURITY")
        await connection.execute("DROP OWNED BY hidden_from")
        await connection.execute("DROP ROLE hidden_from")
        await connection.close()


async def test_an_audit_of_one_day_sees_that_day_alone(edited: Edited) -> None:
    """An edit in it is named; on another day there is nothing to find, and no user's balance is looked at."""
    town, today = edited.town, business_date(edited.town.clock.now())
    edit = f"UPDATE claim SET user_id = 'thief' WHERE envelope_id = {edited.open_id} AND seq = 1"
    target = AuditTarget("set-1", town.set_dsn, range(SMALL.slots))
    found = {}
    for day in (today, today + timedelta(days=1)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Town, "audit", lambda _, day=day, **__: proof.audit([target], town.wallet_dsn, only=day))
            found[day] = await edited.audit_with([edit])
    assert {(one.check, one.subject) for one in found[today].violations} == {
        ("credit_matches_claim", str(edited.open_id))
    }
    assert found[today + timedelta(days=1)].violations == []
    assert found[today].sums.accounts == 0


async def test_the_sums_say_where_the_money_is(edited: Edited) -> None:
    """Paid in = claimed + refunded + open, and the escrow of each slot and day holds exactly what is open."""
    report = await edited.town.audit()
    sums = report.sums
    assert sums.paid_in_fen == sums.claimed_fen + sums.refunded_fen + sums.open_fen
    assert sums.credited_fen == sums.claimed_fen + sums.refunded_fen
    held = await edited.town.scalar("SELECT sum(balance_fen) FROM account WHERE kind = 1", wallet=True)
    assert held == sums.open_fen
    name = escrow_account(edited.open_id)
    assert await edited.town.scalar("SELECT balance_fen > 0 FROM account WHERE name = $1", name, wallet=True)
