"""What is past its rule goes, after a line in the journal; all else stays, and looking changes nothing."""

import json
import os
import time
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from backup.folder import BackupFolder
from backup.retention import plan_prune
from errors import Refused, Unavailable
from retention import kinds
from retention.copies import Copies
from retention.files import OldFiles
from retention.for_ever import ForEver
from retention.held import Held, Kind
from retention.letters import DeadLetters
from retention.rules import RetentionSettings
from runtime import postgres
from schema import roles
from tests.conftest import Databases
from tests.integration.setnode.fixtures import build_set

if TYPE_CHECKING:
    from installation.access import Access

DAY_S = 86_400


def file(path: Path, age_days: float, size: int = 10) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    at = time.time() - age_days * DAY_S
    os.utime(path, (at, at))
    return path


def journals(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for one in folder.glob("retention-*.jsonl") for line in one.read_text().splitlines()]


async def test_files_past_their_rule_go_and_are_on_record(tmp_path: Path) -> None:
    """A dry look changes nothing; applied, old full journals go, each kind after a line of who, what and how much."""
    old = file(tmp_path / "ops-actions-2025-01-01T000000Z-1.jsonl", 500, 30)
    present = file(tmp_path / "ops-actions.jsonl", 500)
    young = file(tmp_path / "ops-actions-2026-11-01T000000Z-1.jsonl", 20)
    kind = OldFiles("journals", tmp_path, lambda: kinds._journals(tmp_path), 400)
    (seen,) = await kinds.show([kind])
    assert (seen.items, seen.past, seen.past_bytes, list(seen.names)) == (2, 1, 30, [old.name])
    assert old.exists()
    assert journals(tmp_path) == []
    (gone,) = await kinds.apply([kind], tmp_path, "otto")
    assert gone.past == 1
    assert not old.exists()
    assert present.exists()
    assert young.exists()
    (line,) = journals(tmp_path)
    assert (line["who"], line["kind"], line["names"], line["past_bytes"]) == ("otto", "journals", [old.name], 30)
    assert [one.past for one in await kinds.apply([kind], tmp_path, "otto")] == [0]
    assert len(journals(tmp_path)) == 1


async def test_for_ever_is_for_ever(tmp_path: Path) -> None:
    """With a rule of 0 days nothing is past it; what no rule names is shown and stays, whoever applies the rules."""
    old = file(tmp_path / "ops-actions-1999-01-01T000000Z-1.jsonl", 9_000)
    archived = file(tmp_path / "archive/2020-01-01/db_07/claim.parquet", 2_000).parent
    never = OldFiles("journals", tmp_path, lambda: kinds._journals(tmp_path), 0)
    archive = ForEver("archive", tmp_path / "archive", "for ever", lambda: [archived])
    shown = await kinds.apply([never, archive], tmp_path, "otto")
    assert [(one.items, one.past) for one in shown] == [(1, 0), (1, 0)]
    await archive.remove(Held("archive", "", "", past=1))
    assert old.exists()
    assert (archived / "claim.parquet").exists()


async def test_a_log_that_is_written_to_stays(tmp_path: Path) -> None:
    """A file that was written to between the look and the removal is not removed."""
    log = file(tmp_path / "logs" / "set-9-a.log", 100)
    kind = OldFiles("logs", tmp_path / "logs", lambda: kinds._left_logs(tmp_path), 30)
    held = await kind.look()
    assert list(held.names) == [log.name]
    os.utime(log)
    await kind.remove(held)
    assert log.exists()


async def test_the_newest_copies_stay_with_their_log(tmp_path: Path) -> None:
    """Older copies and the log before the oldest kept one go; what was not named, because a copy came since, stays."""

    def copy(number: int) -> Path:
        segment = f"0000000100000000{number:08X}"
        base = tmp_path / "set-1" / "base" / f"2026110{number}T000000Z"
        file(base / "backup_manifest", 1)
        file(base / "global" / "pg_control", 1)
        (base / "backup_label").write_text(f"START WAL LOCATION: 0/{number}000028 (file {segment})\n")
        file(tmp_path / "set-1" / "wal" / segment, 1)
        return base

    first, *_ = [copy(number) for number in (1, 2, 3)]
    kind = Copies(BackupFolder(tmp_path, "set-1"), "set-1", 2)
    held = await kind.look()
    assert (held.items, list(held.names)) == (3, [first.name, "000000010000000000000001"])
    assert first.exists()
    copy(4)
    with pytest.raises(Refused, match="have changed since they were listed"):
        await kind.remove(held)
    assert first.exists()
    assert (await kind.remove(await kind.look())).past == 4
    assert sorted(one.name for one in (tmp_path / "set-1").glob("base/*")) == ["20261103T000000Z", "20261104T000000Z"]
    assert (await kind.look()).past == 0


def copy_of(root: Path, name: str, number: int) -> Path:
    """Something like a base copy, whose log begins with this segment."""
    base = root / "set-1" / "base" / name
    file(base / "backup_manifest", 1)
    file(base / "global" / "pg_control", 1)
    (base / "backup_label").write_text(f"START WAL LOCATION: 0/{number}000028 (file 0000000100000000{number:08X})\n")
    return base


def test_a_clock_that_was_ahead_makes_no_copy_the_newest(tmp_path: Path) -> None:
    """Copies are in the order of the server's log: one that is dated 2036 is not kept in the place of today's."""
    ahead = copy_of(tmp_path, "20360101T000000Z", 1)
    today = copy_of(tmp_path, "20261127T000000Z", 2)
    folder = BackupFolder(tmp_path, "set-1")
    assert [one.path for one in folder.bases()] == [ahead, today]
    plan_prune(folder, 1).remove()
    assert [one.path for one in folder.bases()] == [today]
    assert folder.base_for(datetime(2026, 11, 28, tzinfo=UTC)).path == today


def test_two_who_have_planned_the_same(tmp_path: Path) -> None:
    """The second finds it done."""
    copy_of(tmp_path, "20261126T000000Z", 1)
    newest = copy_of(tmp_path, "20261127T000000Z", 2)
    folder = BackupFolder(tmp_path, "set-1")
    for plan in [plan_prune(folder, 1) for _ in range(2)]:
        plan.remove()
    assert [one.path for one in folder.bases()] == [newest]


async def test_what_cannot_be_removed_stops_no_other_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says which file and why, and the others go."""
    for name in ("one", "two"):
        file(tmp_path / name / "old.log", 100)
    first, second = [
        OldFiles(name, tmp_path / name, (lambda folder=tmp_path / name: folder.iterdir()), 30)
        for name in ("one", "two")
    ]
    unlink = Path.unlink

    def denied(self: Path, *, missing_ok: bool = False) -> None:
        if self.parent.name == "one":
            raise PermissionError(1, "Operation not permitted", str(self))
        unlink(self, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", denied)
    found = await kinds.apply([first, second], tmp_path, "otto")
    assert [(one.past, one.code) for one in found] == [(0, "not_removed"), (1, "")]
    assert str(tmp_path / "one" / "old.log") in found[0].why


async def test_dead_letters_go_when_they_are_too_old(databases: Databases) -> None:
    """Of dead letters the old ones go; younger ones, and events that are still retried, stay."""
    dsn = await databases.clone("set", partial(build_set, databases.day))
    insert = """INSERT INTO event_retry (sink, envelope_id, event_id, body, tries, since, next_at, reason)
        SELECT 'one', 1, n::text, '{}', 9, now() - make_interval(days => n),
            CASE WHEN n = 200 THEN now() END, 'no' FROM unnest(ARRAY[1, 89, 91, 150, 200]) n"""
    async with postgres.connected(dsn) as connection:
        await connection.execute("INSERT INTO event_sink (name, kind, address) VALUES ('one', 'webhook', 'http://x')")
        await connection.execute(insert)

    class OneSet:
        def set_dsn(self, name: str, role: str) -> str:
            assert (name, role) == ("set-1", roles.EVENTS)
            return databases.dsn_as(dsn, role)

    kind = DeadLetters(cast("Access", OneSet()), "set-1", 90)
    held = await kind.look()
    assert (held.items, held.past, held.past_bytes) == (4, 2, 4)
    await kind.remove(held)
    async with postgres.connected(dsn) as connection:
        left = await connection.fetch("SELECT event_id FROM event_retry ORDER BY retry_id")
    assert [row["event_id"] for row in left] == ["1", "89", "200"]
    never = DeadLetters(cast("Access", OneSet()), "set-1", 0)
    assert (await never.look()).past == 0


async def test_what_is_away_does_not_stop_the_others(tmp_path: Path) -> None:
    """A kind that cannot be looked at, or removed, says its code; the others are removed all the same."""

    class Away:
        name, rule = "away", "some days"

        async def look(self) -> Held:
            raise Unavailable("database_unavailable", "it is away")

        async def remove(self, held: Held) -> None:
            raise AssertionError

    class Busy:
        name, rule = "busy", "some"

        async def look(self) -> Held:
            return Held("busy", "", "some", items=1, past=1)

        async def remove(self, held: Held) -> None:
            raise Refused("backup_runs", "a restore is at work")

    old = file(tmp_path / "retention-2001.jsonl", 9_000)
    files = OldFiles("journals", tmp_path, lambda: kinds._journals(tmp_path), 400)
    every: list[Kind] = [Away(), Busy(), files]
    found = await kinds.apply(every, tmp_path, "otto")
    assert [(one.code, one.past) for one in found] == [("database_unavailable", 0), ("backup_runs", 0), ("", 1)]
    assert not old.exists()


async def test_nothing_goes_that_is_not_on_record(tmp_path: Path) -> None:
    """Where the journal cannot be written, nothing is removed."""
    old = file(tmp_path / "logs" / "gone.log", 100)
    kind = OldFiles("logs", tmp_path / "logs", lambda: kinds._left_logs(tmp_path), 30)
    (found,) = await kinds.apply([kind], tmp_path / "no-such-folder", "otto")
    assert found.code == "journal_unwritable"
    assert old.exists()


def test_the_rules_have_defaults() -> None:
    """What is not set is kept long: seven copies, over a year of journals."""
    rules = RetentionSettings()
    assert (rules.retention_backups, rules.retention_actions_days, rules.retention_dead_letter_days) == (7, 400, 90)
