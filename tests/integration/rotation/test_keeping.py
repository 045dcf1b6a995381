# ruff: noqa: E501 - one property a line
"""Dropping, and the daemon: what destroys and what works alone, and what neither of them does."""

import asyncio
import json
import shutil
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from archive import place
from archive.place import Archive
from errors import InvariantBroken, Refused
from rotation import facts
from rotation.background import BackgroundRotation
from rotation.daemon import Daemon, DaemonSettings, Round
from rotation.day_proof import as_text
from rotation.detach import drop_foreign
from rotation.drop import drop_day
from rotation.plan import Action, Alarm, Rules
from rotation.steps import DayUnproven, Rotation
from rotation.survey import survey
from runtime import metrics
from schema import names, roles
from schema.day_tables import AHEAD_DAYS, DayTables, known_days
from schema.migrate import migrate_set, migrate_wallet
from schema.names import TableKind
from sharding.ids import BUSINESS_ZONE, business_date, make_id
from tests.clock import ManualClock
from tests.conftest import Databases
from tests.integration.rotation.fixtures import (
    ARCHIVE_KEY,
    BY,
    DAY,
    NEXT,
    TODAY,
    XXS,
    FileArchive,
    OldDays,
    WrittenFile,
    old_days,
)  # fmt: skip

__all__ = ["old_days"]


async def drop(old_days: OldDays, *, today=TODAY, retention_days=5) -> None:
    await drop_day(old_days.rotation, DAY, today, BY, retention_days=retention_days)


async def test_only_verified_days_past_their_retention_are_dropped(old_days: OldDays) -> None:
    """Hot, closed, detached, exported: refused. Verified but young: refused. Then gone, with a line each, and only that day."""
    with pytest.raises(Refused, match="day_unknown"):
        await drop(old_days)
    for state in ("closed", "detached", "exported"):
        await old_days.run_to(state)
        with pytest.raises(Refused, match="day_not_verified"):
            await drop(old_days)
    await old_days.run()
    with pytest.raises(Refused, match="retention_not_over"):
        await drop(old_days, today=DAY + timedelta(days=5))
    assert await old_days.states() == {0: "verified", 1: "verified"}
    await drop(old_days, today=DAY + timedelta(days=6))
    await drop(old_days, today=DAY + timedelta(days=6))
    assert await old_days.states() == {0: "dropped", 1: "dropped"}
    assert (await old_days.lines()).count("dropped") == 2
    assert await old_days.scalar("SELECT to_regclass($1) IS NULL", f"public.claim_{DAY:%Y%m%d}")
    assert await old_days.scalar(f"SELECT count(*) FROM claim_{NEXT:%Y%m%d}") > 0
    assert await old_days.run() == {0: "dropped", 1: "dropped"}


@pytest.mark.parametrize(
    ("what", "made", "gone"),
    [
        ("public.report", "CREATE VIEW {it} AS SELECT * FROM {cold}.claim_0_28", "DROP VIEW {it}"),
        ("{cold}.evidence", "CREATE TABLE {it} AS SELECT 1 AS found", "DROP TABLE {it}"),
    ],
    ids=["a view", "a table"],
)
async def test_nothing_but_the_days_own_tables_is_dropped(old_days: OldDays, what: str, made: str, gone: str) -> None:
    """What a DBA has put over or beside them keeps that database's day, by name; without it the day is dropped."""
    await old_days.run()
    words = {"cold": f"cold_00_{DAY:%Y%m%d}"}
    words["it"] = what.format(**words)
    await old_days.rows(made.format(**words))
    with pytest.raises(Refused, match=words["it"].rpartition(".")[2]) as refused:
        await drop(old_days)
    assert refused.value.code == "step_refused"
    assert (await old_days.states())[0] == "verified"
    assert await old_days.scalar("SELECT to_regclass($1) IS NOT NULL", words["it"])
    await old_days.rows(gone.format(**words))
    await drop(old_days)
    assert await old_days.states() == {0: "dropped", 1: "dropped"}
    assert await old_days.scalar("SELECT to_regnamespace($1) IS NULL", words["cold"])


@pytest.mark.parametrize("spoil", ["lost", "cut", "another row"])
async def test_what_cannot_be_read_back_is_not_dropped(old_days: OldDays, spoil: str) -> None:
    """The archive is compared with the tables once more before they go; spoilt meanwhile, everything stays."""
    await old_days.run()
    path = old_days.archive.path(1, DAY)
    if spoil == "lost":
        path.unlink()
    else:
        path.write_text(path.read_text()[:100] if spoil == "cut" else path.read_text().replace(",1,", ",2,", 1))
    with pytest.raises(Refused, match="archive_"):
        await drop(old_days)
    states = await old_days.states()
    assert states[1] == "verified"
    assert await old_days.scalar(f"SELECT count(*) FROM claim_{DAY:%Y%m%d} WHERE slot BETWEEN 10 AND 19") > 0


@pytest.mark.long
@pytest.mark.parametrize("spoil", ["lost", "cut", "a file lost", "a byte changed", "its manifest another's"])
async def test_a_verified_day_whose_archive_is_spoilt_is_exported_anew(
    old_days: OldDays, tmp_path: Path, spoil: str
) -> None:
    """It is not dropped; asked for by its date it goes back to `exported`, is written again, verified, and may go."""
    old_days.real = Archive(tmp_path / "archive", ARCHIVE_KEY)
    await old_days.run()
    where = place.folder_of(old_days.real.folder, xx=1, day=DAY)
    claims = where / "claim.parquet"
    content = claims.read_bytes()
    if spoil == "lost":
        shutil.rmtree(where)
    elif spoil == "a file lost":
        claims.unlink()
    elif spoil == "its manifest another's":
        (where / "manifest.json").write_bytes((where.parent / "db_00" / "manifest.json").read_bytes())
    else:
        claims.write_bytes(
            content[:100] if spoil == "cut" else bytes([*content[:100], content[100] ^ 1, *content[101:]])
        )
    with pytest.raises(Refused, match="archive_"):
        await drop(old_days)
    assert (await old_days.states())[1] == "verified"
    assert await old_days.run() == {0: "dropped", 1: "verified"}
    assert (await old_days.lines()).count("exported") == 3
    await drop(old_days)
    assert await old_days.states() == {0: "dropped", 1: "dropped"}
    assert await old_days.violations() == []


@pytest.mark.parametrize("manifest", ["there", "gone"])
async def test_a_spoilt_archive_is_not_cured_from_changed_rows(
    old_days: OldDays, tmp_path: Path, manifest: str
) -> None:
    """Users swapped in the cold table, all sums as before: the digest that was kept refuses the new export by name."""
    old_days.real = Archive(tmp_path / "archive", ARCHIVE_KEY)
    await old_days.run()
    where = place.folder_of(old_days.real.folder, xx=1, day=DAY)
    claims = where / "claim.parquet"
    content = claims.read_bytes()
    claims.write_bytes(bytes([*content[:100], content[100] ^ 1, *content[101:]]))
    if manifest == "gone":
        (where / "manifest.json").unlink()
    before = {path: path.read_bytes() for path in where.iterdir()}
    table = f"public.claim_{DAY:%Y%m%d}"
    two = f"SELECT user_id, ctid, tableoid FROM {table} WHERE slot BETWEEN 10 AND 19 AND kind = 'open' ORDER BY 1 DESC"
    connection = await asyncpg.connect(old_days.set_dsn)
    async with connection.transaction():
        await connection.execute("SET LOCAL session_replication_role = replica")
        await connection.execute(f"ALTER TABLE {table} DISABLE TRIGGER ALL")
        first, *others = await connection.fetch(two)
        last = next(one for one in reversed(others) if one["user_id"] != first["user_id"])
        for one, other in ((first, last), (last, first)):
            await connection.execute(
                f"UPDATE {table} SET user_id = $1 WHERE ctid = $2 AND tableoid = $3",
                other["user_id"], one["ctid"], one["tableoid"],
            )  # fmt: skip
    await connection.close()
    with pytest.raises(Refused, match="nothing was written") as differs:
        await old_days.run()
    assert differs.value.code == "archive_differs"
    assert (await old_days.states())[1] in ("exported", "verified")
    assert {path: path.read_bytes() for path in where.iterdir()} == before


async def test_an_archive_spoilt_before_it_was_verified_is_written_anew(old_days: OldDays) -> None:
    """The tables still stand, so a new export cures it. Other rows in it do not come from a disk: that stays, with its name."""
    await old_days.run_to("exported")
    old_days.archive.path(0, DAY).unlink()
    assert await old_days.run() == {0: "verified", 1: "verified"}
    assert old_days.archive.exports == 3


async def test_an_archive_with_other_rows_stays_unverified(old_days: OldDays) -> None:
    """A difference is for a person; nothing is changed."""
    await old_days.run_to("exported")
    path = old_days.archive.path(0, DAY)
    path.write_text(path.read_text().replace("lucky", "equal", 1))
    with pytest.raises(Refused, match="archive_differs"):
        await old_days.run()
    assert await old_days.states() == {0: "exported", 1: "exported"}


def daemon(old_days: OldDays, **settings) -> Daemon:
    return Daemon(
        rotations=lambda: [old_days.rotation],
        zone=lambda: BUSINESS_ZONE,
        settings=DaemonSettings(**settings),
    )


async def test_the_daemon_does_the_ordinary_and_reports_the_rest(old_days: OldDays) -> None:
    """It makes tables ahead, rotates what is provable, names what is not, drops nothing, and finds nothing to do after."""
    old_days.clock.advance(days=1)
    first = await daemon(old_days).run_once()
    assert [day for _, day in first.rotated] == [DAY]
    assert [(day, error.code) for _, day, error in first.failed] == [(NEXT, "day_unproven")]
    assert len(first.made) == AHEAD_DAYS + 1
    assert first.dropped == []
    assert await old_days.states() == {0: "verified", 1: "verified"}
    assert await old_days.states(NEXT) == {}
    again = await daemon(old_days).run_once()
    assert (again.rotated, again.made, len(again.failed)) == ([], [], 1)
    seen = await survey(old_days.set_access, TODAY + timedelta(days=1), Rules())
    assert (seen.ahead, seen.alarm) == (AHEAD_DAYS, Alarm.OK)
    plans = {one.facts.day: one for one in seen.days}
    assert (plans[DAY].action, plans[NEXT].action) == (Action.KEEP, Action.ROTATE)
    assert {one.check for one in plans[NEXT].obstacles} == {"envelope_open", "escrow_not_zero"}


async def test_the_daemon_drops_only_when_its_settings_say_so(old_days: OldDays) -> None:
    """Past the retention: kept by default, dropped when told."""
    old_days.clock.advance(days=60)
    assert (await daemon(old_days).run_once()).dropped == []
    assert (await daemon(old_days).run_once()).dropped == []
    assert await old_days.states() == {0: "verified", 1: "verified"}
    done = await daemon(old_days, rotate_drop=True).run_once()
    assert [day for _, day in done.dropped] == [DAY]
    assert await old_days.states() == {0: "dropped", 1: "dropped"}


WRONG_DAYS = 20


async def no_check(*_: object) -> None:
    """As if nobody compared clocks."""


@pytest.fixture
async def this_year(databases: Databases, tmp_path: Path) -> OldDays:
    """A SET of today, with empty tables made ahead, and a daemon's clock that is weeks ahead of the database's."""
    set_dsn = await databases.clone("set_alone", migrate_set)
    wallet_dsn = await databases.clone("wallet", migrate_wallet)
    await DayTables(databases.dsn_as(set_dsn, roles.OWNER), XXS).ensure(business_date(datetime.now(UTC)))
    found = OldDays(databases, set_dsn, wallet_dsn, tmp_path)
    found.clock = ManualClock(datetime.now(UTC) + timedelta(days=WRONG_DAYS))
    return found


@pytest.mark.parametrize("compared", [True, False], ids=["the clocks are compared", "the database alone holds"])
async def test_a_wrong_clock_closes_no_day_to_come(
    this_year: OldDays, monkeypatch: pytest.MonkeyPatch, *, compared: bool
) -> None:
    """Weeks ahead of the database: no day of today or later is closed, and no table made that nobody needs yet."""
    if not compared:
        monkeypatch.setattr("rotation.steps.check_clock", no_check)
    done = await daemon(this_year).run_once()
    codes = {error.code for _, _, error in done.failed}
    assert codes == ({"clock_wrong"} if compared else {"step_refused", "clock_wrong"})
    assert await this_year.scalar("SELECT count(*) FROM day_register") == 0
    connection = await asyncpg.connect(this_year.set_dsn)
    known = await known_days(connection)
    await connection.close()
    assert max(known) == business_date(datetime.now(UTC)) + timedelta(days=AHEAD_DAYS)


@pytest.mark.parametrize("days", [-2, 2])
async def test_no_day_is_dropped_by_a_wrong_clock(this_year: OldDays, days: int) -> None:
    """Ahead or behind: which of the two is wrong nobody here knows."""
    with pytest.raises(Refused, match="clock_wrong"):
        await drop(this_year, today=business_date(datetime.now(UTC)) + timedelta(days=days))


class FullDisk(FileArchive):
    """An archive whose every export meets a full disk of Postgres'."""

    async def export(self, connection: Any, *, xx: int, day: date, proof: Any) -> WrittenFile:
        raise asyncpg.DiskFullError("could not extend file: No space left on device")


async def test_a_fault_of_one_set_keeps_the_others_from_nothing(old_days: OldDays, tmp_path: Path) -> None:
    """A driver's error in one day and a SET that is away: named, the tables are made, and the next SET has its round."""
    away = replace(old_days.set_access, name="away", dsn="postgresql://nobody@127.0.0.1:1/nothing")
    full = replace(old_days.set_access, name="full")
    rotations = [
        Rotation(away, old_days.clock, old_days.archive),
        Rotation(full, old_days.clock, FullDisk(tmp_path)),
        old_days.rotation,
    ]
    done = await replace(daemon(old_days), rotations=lambda: rotations).run_once()
    failed = {(name, day): error.code for name, day, error in done.failed if day != NEXT}
    assert failed == {("away", None): "database_unavailable", ("full", DAY): "database_unavailable"}
    assert {name for name, _ in done.made} == {"full"}
    assert done.rotated == [("set-1", DAY)]
    told = metrics.render().decode()
    assert f'hongbao_rotation_days_ahead{{set="full"}} {AHEAD_DAYS}' in told
    assert 'hongbao_rotation_days_ahead{set="away"}' not in told, "what nobody could read is not published"


async def test_days_are_read_in_one_snapshot(old_days: OldDays, monkeypatch: pytest.MonkeyPatch) -> None:
    """A day whose tables are made between the two looks at the catalog is seen whole or not at all."""
    new = DAY - timedelta(days=20)
    connection = await asyncpg.connect(old_days.set_access.dsn)
    fetch = asyncpg.Connection.fetch

    async def made_meanwhile(self: Any, query: str, *args: Any, **more: Any) -> Any:
        if query == facts._LEAVES:
            await DayTables(old_days.set_access.dsn, XXS).ensure(new, ahead_days=0)
        return await fetch(self, query, *args, **more)

    try:
        with monkeypatch.context() as patch:
            patch.setattr(asyncpg.Connection, "fetch", made_meanwhile)
            seen = await facts.all_days(connection, lambda _: XXS)
        assert [one.day for one in seen] == [DAY, NEXT]
        assert new in [one.day for one in await facts.all_days(connection, lambda _: XXS)]
    finally:
        await connection.close()


async def test_a_part_without_a_limit_is_not_given_up_after_zero_seconds() -> None:
    """A timeout from inside a part is named as what it is."""
    done = Round()

    async def times_out() -> None:
        raise TimeoutError("the wallet")

    await Daemon._part(done, "set-1", DAY, times_out())
    await Daemon._part(done, "set-1", None, asyncio.sleep(5), 0.01)
    first, second = [error.detail for *_, error in done.failed]
    assert "0 s" not in first
    assert "did not answer in time: TimeoutError('the wallet')" in first
    assert "was given up after 0.01 s" in second


def test_a_proof_is_never_cut() -> None:
    """What the log holds is read back as JSON by the export; one too long is refused before it is written."""
    proof = {"at": "2026-11-21", "envelopes": 10**18}
    assert json.loads(as_text(proof)) == proof
    with pytest.raises(InvariantBroken, match="proof_fits"):
        as_text({"at": "x" * 4_000})


async def test_empty_tables_that_somebody_reads_are_dropped_when_he_has_left(
    old_days: OldDays, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lock that is held for a moment ends no run."""
    await DayTables(old_days.databases.dsn_as(old_days.set_dsn, roles.OWNER), (0, 1, 5)).ensure(DAY, ahead_days=1)
    tries = []

    async def held_once(*told: Any) -> int:
        tries.append(told)
        if len(tries) == 1:
            raise asyncpg.LockNotAvailableError("canceling statement due to lock timeout")
        return await drop_foreign(*told)

    monkeypatch.setattr("rotation.steps.drop_foreign", held_once)
    assert await old_days.run() == {0: "verified", 1: "verified"}
    assert (await old_days.lines()).count("strangers_dropped") == 1


async def test_days_of_a_set_without_databases_go(old_days: OldDays) -> None:
    """Its tables have no leaves: past their grace they are detached and dropped, and younger ones stay."""
    none = replace(old_days.set_access, name="empty", databases=lambda _: ())
    for kind in TableKind:
        leaves = await old_days.rows(
            "SELECT inhrelid::regclass::text AS leaf FROM pg_inherits WHERE inhparent = to_regclass($1)",
            names.day_table(kind, DAY),
        )
        await old_days.rows(f"DROP TABLE {', '.join(row['leaf'] for row in leaves)}")
    await DayTables(none.dsn, ()).ensure(TODAY, ahead_days=0)
    empty = replace(old_days.rotation, set_access=none)
    done = await replace(daemon(old_days), rotations=lambda: [empty]).run_once()
    assert (done.failed, done.rotated) == ([], [("empty", DAY)])
    for kind in TableKind:
        assert await old_days.scalar("SELECT to_regclass($1) IS NULL", names.day_table(kind, DAY))
        assert await old_days.scalar("SELECT to_regclass($1) IS NOT NULL", names.day_table(kind, TODAY))
        assert await old_days.scalar("SELECT to_regclass($1) IS NOT NULL", names.day_table(kind, NEXT))
    assert await old_days.lines() == ["leafless_dropped"]
    with pytest.raises(Refused, match="day_unknown"):
        await empty.run(DAY, TODAY, BY)


async def test_a_failure_is_told_when_it_begins_and_when_it_comes_back() -> None:
    """Not at every round, and nothing is remembered of what is over; what was dropped is told as well."""
    said: list[str] = []
    rotating = BackgroundRotation(Path("nowhere"), said.append)
    wrong = Round(failed=[("set-1", None, Refused("rotation_busy", "busy"))], dropped=[("set-1", DAY)])
    for done in (wrong, Round(failed=wrong.failed), Round(), Round(failed=wrong.failed)):
        rotating.report(done)
    assert [text.partition(":")[0] for text in said] == [
        f"{DAY} of set-1 was past its retention and is dropped", "rotation of set-1", "rotation of set-1",
    ]  # fmt: skip


async def test_a_day_in_the_register_is_never_made_again(old_days: OldDays) -> None:
    """A clock set back by weeks makes no new tables under the old date."""
    await old_days.run()
    await drop(old_days)
    with pytest.raises(Refused, match="day_closed"):
        await DayTables(old_days.set_access.dsn, XXS).ensure(DAY, ahead_days=1)


async def test_empty_tables_of_a_database_that_moved_go_without_an_entry(old_days: OldDays) -> None:
    """Made ahead before the database moved to another SET: proven empty, dropped with the day; nothing of it is archived."""
    await DayTables(old_days.databases.dsn_as(old_days.set_dsn, roles.OWNER), (0, 1, 5)).ensure(DAY, ahead_days=1)
    assert await old_days.run() == {0: "verified", 1: "verified"}
    assert (await old_days.lines()).count("strangers_dropped") == 1
    assert await old_days.scalar("SELECT to_regclass($1) IS NULL", f"db_05.claim_3_{DAY:%d}")
    assert await old_days.scalar("SELECT to_regclass($1) IS NOT NULL", f"db_05.claim_3_{NEXT:%d}")


async def test_another_sets_rows_keep_the_day_where_it_is(old_days: OldDays) -> None:
    """A database that the topology gives to another SET has rows here still: named, and nothing is changed or dropped."""
    ours_alone = replace(old_days.set_access, databases=lambda _: (0,))
    rows = await old_days.scalar(f"SELECT count(*) FROM claim_{DAY:%Y%m%d} WHERE slot > 9")
    assert rows > 0
    with pytest.raises(DayUnproven) as unproven:
        await replace(old_days.rotation, set_access=ours_alone).run(DAY, TODAY, BY)
    assert [(one.check, one.subject) for one in unproven.value.obstacles] == [("foreign_rows", "db_01")]
    plans = await survey(ours_alone, TODAY, Rules())
    assert {one.check for day in plans.days if day.facts.day == DAY for one in day.obstacles} == {"foreign_rows"}
    assert await old_days.scalar(f"SELECT count(*) FROM claim_{DAY:%Y%m%d} WHERE slot > 9") == rows
    connection = await asyncpg.connect(old_days.set_access.dsn)
    with pytest.raises(InvariantBroken, match="strangers_are_empty"):
        async with connection.transaction():
            await drop_foreign(connection, 1, DAY)
    await connection.close()
    assert await old_days.run() == {0: "verified", 1: "verified"}


async def test_a_database_on_its_way_to_another_set_keeps_the_day(old_days: OldDays) -> None:
    """Leaves that a move has fenced are named; once the move is over the day goes."""
    connection = await asyncpg.connect(old_days.set_access.dsn)
    leaf = f"db_01.claim_3_{DAY:%d}"
    await connection.execute(
        f"CREATE TRIGGER moved_away BEFORE INSERT ON {leaf} FOR EACH ROW EXECUTE FUNCTION moved_away('01')"
    )
    with pytest.raises(DayUnproven) as unproven:
        await old_days.run()
    assert [(one.check, one.subject) for one in unproven.value.obstacles] == [("database_moves", "db_01")]
    await connection.execute(f"DROP TRIGGER moved_away ON {leaf}")
    await connection.close()
    assert await old_days.run() == {0: "verified", 1: "verified"}


async def test_a_day_some_of_whose_databases_came_dropped_is_hot_in_the_others(old_days: OldDays) -> None:
    """A move brings along what its register says of archived days: that neither hides the other databases' day nor hinders it.

    The audit replays the others' rows all the same: nothing of theirs is a stray, and a row that was edited is found.
    """
    await old_days.rows(
        "INSERT INTO day_register (day, xx, state, envelopes, claims, paid_in_fen, claimed_fen, refunded_fen, manifest_sha256) "
        "VALUES ($1, 7, 'dropped', 0, 0, 0, 0, 0, repeat('a', 64))", DAY,
    )  # fmt: skip
    seen = {one.facts.day: one for one in (await survey(old_days.set_access, TODAY, Rules())).days}
    assert seen[DAY].action is Action.ROTATE
    assert await old_days.violations() == []
    edit = "UPDATE claim SET amount_fen = amount_fen + $2 WHERE seq = 0 AND envelope_id = $1"
    row = await old_days.rows("SELECT min(envelope_id) AS id FROM claim WHERE envelope_id < $1", make_id(NEXT, 0, 0))
    await old_days.rows(edit, row[0]["id"], 1)
    assert {one.subject for one in await old_days.violations()} == {str(row[0]["id"])}
    await old_days.rows(edit, row[0]["id"], -1)
    assert await old_days.run() == {0: "verified", 1: "verified", 7: "dropped"}
    assert await old_days.violations() == []
