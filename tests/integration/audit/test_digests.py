"""A day on which everything is final is read once; from then on its digest tells whether anything of it has changed."""

import asyncio
import json
import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import pytest_asyncio
from structlog.testing import capture_logs

from audit import day, proof
from audit.proof import AuditTarget, audit
from audit.proofs import Proofs
from audit.report import Report
from envelope.claim_log import ClaimLog
from errors import Unavailable
from runtime import logs
from sharding.ids import business_date, first_id
from tests.integration.audit.test_money_columns import ALL, SET, Edit, Ground
from tests.integration.setnode.fixtures import Town, common_town, module_databases, shared_town, unswept
from wire.orders import escrow_account

__all__ = ["common_town", "module_databases", "shared_town"]
pytestmark = pytest.mark.asyncio(loop_scope="module")
TOWN = unswept

KEY = b"the key of proofs"
OF_OPEN_DAYS = {"due", "payout_batch"}
EDITS = [(where, edit) for where, edit in ALL if edit.table not in OF_OPEN_DAYS]


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def ground(shared_town: Town, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Ground]:
    """A day with a sold out, two canceled and a named envelope, all paid, which one audit has read."""
    town = shared_town
    ids = {name: await town.create(1_000, 3, sender=name) for name in ("ann", "cid", "una")}
    for n in range(3):
        await town.open(ids["ann"], f"o{n}")
    await town.open(ids["cid"], "c0")
    for sender in ("cid", "una"):
        await town.cancel(ids[sender], sender)
    named = await town.create(1_000, 2, sender="nat", to=["guest0", "guest1"])
    for n in range(2):
        await town.open(named, f"guest{n}")
    await town.deposit("s0", 1)
    await town.paid_out()
    words = {
        "open": ids["ann"], "sold": ids["ann"], "canceled": ids["cid"], "unopened": ids["una"], "named": named,
        "escrow": escrow_account(ids["ann"]),
    }  # fmt: skip
    one = Ground(town, words, tmp_path_factory.mktemp("proofs") / "proofs.json")
    assert (await one.audit()).parts_by_digest == 0
    yield one


async def proven_by(ground: Ground) -> int:
    """Return how many parts a clean audit has not read."""
    report = await ground.audit()
    assert report.violations == []
    return report.parts_by_digest


async def test_what_was_proven_is_not_read_again(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second audit reads no log of the day, and its sums are those of one that reads all."""
    whole = await ground.town.audit()

    def unread(*_: Any) -> None:
        raise AssertionError("a log was read")

    monkeypatch.setattr(proof, "_add_up", unread)
    again = await ground.audit()
    assert again.parts_by_digest > 0
    assert again.sums == whole.sums
    assert whole.sums.claims == 6


async def test_a_database_that_goes_away_ends_an_audit_with_a_sentence(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever was about to be read; what the driver says of its connection is behind it."""
    real = proof.set_snapshot

    async def cut(stack: Any, dsn: str) -> Any:
        connection = await real(stack, dsn)
        await ground.town.cut_off(connection)
        return connection

    monkeypatch.setattr(proof, "set_snapshot", cut)
    with pytest.raises(Unavailable, match="a database went away while it was audited"):
        await ground.audit()


@pytest.mark.long
@pytest.mark.parametrize(
    ("where", "edit"), EDITS, ids=[f"{edit.table}.{edit.column}-{number}" for number, (_, edit) in enumerate(EDITS)]
)
async def test_an_edit_of_a_proven_day_is_named(ground: Ground, where: str, edit: Edit) -> None:
    """Its digest differs, the day is read, and the report names the edit; after the way back it is proven anew."""
    found = await ground.edited(where, edit)
    assert {subject for _, subject in found} & ground.about(), (edit, found)
    assert await proven_by(ground) >= 0
    assert await proven_by(ground) > 0


@pytest.mark.parametrize("lost", ["claim", "envelope", "guest", "transfer", "fund"])
async def test_rows_lost_of_a_proven_day_are_named(ground: Ground, lost: str) -> None:
    """Rows that are gone leave another digest, too."""
    where = SET if lost in {"claim", "envelope", "guest"} else "wallet"
    dsn = ground.town.set_dsn if where == SET else ground.town.wallet_dsn
    of = "named" if lost == "guest" else "open"
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute("SET session_replication_role = replica")
        before = await ground._rows(connection, lost)
        await connection.execute(f"DELETE FROM {lost} WHERE envelope_id = $1", ground.words[of])
        assert str(ground.words[of]) in {one.subject for one in (await ground.audit()).violations}
        await ground._put_back(connection, lost, before)
    finally:
        await connection.close()
    assert await proven_by(ground) == 0
    assert await proven_by(ground) > 0


async def test_full_reads_all_and_proves_anew(ground: Ground) -> None:
    """`full` believes no proof; afterwards the proofs are those that it made."""
    assert ground.proofs is not None
    report = await ground.town.audit(proofs=Proofs(ground.proofs, KEY, full=True))
    assert (report.parts_by_digest, report.violations) == (0, [])
    assert await proven_by(ground) > 0


async def test_a_proof_made_with_a_provider_serves_only_with_one(ground: Ground) -> None:
    """What may be paid to a provider's account does not hold where there is none."""
    assert ground.proofs is not None
    for provider, known in ((True, False), (True, True), (False, True)):
        report = await ground.town.audit(provider=provider, proofs=Proofs(ground.proofs, KEY))
        assert (report.parts_by_digest > 0) is known


async def test_what_is_open_is_read_each_time(ground: Ground) -> None:
    """A day with an open envelope is never proven by its digest, and once it is sold out it is."""
    envelope_id = await ground.town.create(10, 1, sender="late")
    assert [await proven_by(ground) for _ in range(2)] == [0, 0]
    await ground.town.open(envelope_id, "l0")
    await ground.town.paid_out()
    assert await proven_by(ground) == 0
    assert await proven_by(ground) > 0


SPOILS = {
    "another digest": lambda text: text.replace('"digest": "', '"digest": "0'),
    "a sum more": lambda text: text.replace('"claims": ', '"claims": 1'),
    "cut": lambda text: text[:-20],
    "empty": lambda _: "",
    "a list": lambda _: "[]",
    "no signature": lambda text: json.dumps({"rules": 1, "proofs": json.loads(text)["proofs"]}),
    "of another shape": lambda _: '{"mac": 5, "rules": 1, "proofs": []}',
    "not text": lambda _: b"\xff\xfe\x00",
}


@pytest.mark.parametrize("spoiled", SPOILS)
async def test_a_forged_or_broken_file_proves_nothing(ground: Ground, spoiled: str) -> None:
    """What is not signed with the installation's key is not believed: the days are read, and a good file is written."""
    assert ground.proofs is not None
    content = SPOILS[spoiled](ground.proofs.read_text())
    ground.proofs.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert await proven_by(ground) == 0
    assert await proven_by(ground) > 0


async def test_what_full_finds_wrong_loses_its_proof(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part that was proven and that `full` finds wrong is read by the next audit, and by each until it holds."""
    assert ground.proofs is not None
    assert await proven_by(ground) > 0
    with monkeypatch.context() as patched:

        def wrong(log: ClaimLog, report: Report) -> None:
            report.add("made_up", log.terms.envelope_id, "this check was not there when the part was proven", 1)

        patched.setattr(proof, "_add_up", wrong)
        assert not (await ground.town.audit(proofs=Proofs(ground.proofs, KEY, full=True))).holds
        again = await ground.audit()
        assert (again.parts_by_digest, again.holds) == (0, False)
    assert [await proven_by(ground) > 0 for _ in range(2)] == [False, True]


async def test_what_cannot_be_kept_or_read_is_said_and_the_report_stands(
    ground: Ground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that refuses the file, and a file that cannot be opened: all is read, a warning says why."""
    # A logger that has been used before, in a test that set up logs, keeps what it had then.
    monkeypatch.setattr("audit.proofs._log", logs.get("audit"))
    (tmp_path / "proofs.json.new").mkdir()
    (tmp_path / "proofs.json.new" / "in the way").touch()
    for name in ("proofs.json", "missing/proofs.json"):
        with capture_logs() as said:
            report = await ground.town.audit(proofs=Proofs(tmp_path / name, KEY))
        assert (report.holds, report.parts_by_digest) == (True, 0)
        assert [one["log_level"] for one in said if "could not be kept" in one["event"]] == ["warning"]
        assert not (tmp_path / name).exists()
    (tmp_path / "folder.json").mkdir()
    with capture_logs() as said:
        report = await ground.town.audit(proofs=Proofs(tmp_path / "folder.json", KEY))
    assert (report.holds, report.parts_by_digest) == (True, 0)
    assert sum("are not used" in one["event"] for one in said) == 1


async def test_what_a_wallet_has_lost_is_decided_in_portions(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wallet without funds and credits: in whatever portions a later snapshot decides, each is named once."""
    connection = await asyncpg.connect(ground.town.wallet_dsn)
    tables = ("fund", "transfer")
    try:
        await connection.execute("SET session_replication_role = replica")
        before = {table: await ground._rows(connection, table) for table in tables}
        for table in tables:
            await connection.execute(f"DELETE FROM {table}")
        found: list[list[tuple[str, str]]] = []
        calls: list[int] = []
        flush = proof.check_in_flight

        async def counted(*args: Any) -> None:
            calls[-1] += 1
            await flush(*args)

        monkeypatch.setattr(proof, "check_in_flight", counted)
        for most in (50_000, 1, 3):
            monkeypatch.setattr(day, "IN_FLIGHT_MOST", most)
            calls.append(0)
            found.append(sorted((one.check, one.subject) for one in (await ground.town.audit()).violations))
        assert found[0] == found[1] == found[2]
        assert {"claim_is_paid_or_waiting", "envelope_has_fund"} <= {check for check, _ in found[0]}
        assert calls[0] == 1
        assert calls[1] >= calls[2] > 1
        for table in tables:
            await ground._put_back(connection, table, before[table])
    finally:
        await connection.close()
    assert (await ground.town.audit()).violations == []


async def test_audits_at_once_keep_what_they_have_proven(tmp_path: Path, ground: Ground) -> None:
    """The file of proofs is replaced in one step, also when audits of one process end together."""
    path = tmp_path / "proofs.json"
    reports = await asyncio.gather(*(ground.town.audit(proofs=Proofs(path, KEY)) for _ in range(3)))
    assert all(report.holds for report in reports)
    assert (await ground.town.audit(proofs=Proofs(path, KEY))).parts_by_digest > 0
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.long
async def test_an_emptied_set_does_not_fill_the_memory(ground: Ground) -> None:
    """Of a SET that has lost its rows every fund and credit of the wallet is a violation; none of them is collected."""
    town, rows = ground.town, 200_000
    today = business_date(town.clock.now())
    connection = await asyncpg.connect(town.wallet_dsn)
    try:
        await connection.execute("SET session_replication_role = replica")
        await connection.execute(
            "INSERT INTO transfer"
            " (order_no, kind, debit_account, credit_account, user_account, amount_fen, envelope_id)"
            " SELECT id || '.0', 2, e.account_id, u.account_id, u.account_id, 7, id"
            " FROM (SELECT $1::bigint + 1000 * n AS id FROM generate_series(1, $2::bigint) n) ids, account e, account u"
            " WHERE u.name = 'user:ann' AND e.name = $3",
            first_id(today), rows, ground.words["escrow"],
        )  # fmt: skip
        tracemalloc.start()
        try:
            assert town.databases is not None
            report = await audit([AuditTarget("set-1", town.set_dsn, range(30))], town.wallet_dsn)
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert report.count > rows
        assert most < 32 * 2**20, most
    finally:
        await connection.execute(
            "DELETE FROM transfer WHERE amount_fen = 7 AND envelope_id <= $1::bigint + 1000 * $2::bigint",
            first_id(today), rows,
        )  # fmt: skip
        await connection.close()
