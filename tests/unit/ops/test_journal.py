"""The journal of actions: what was answered is in it, also after a crash in the middle of a line."""

from pathlib import Path

import pytest

from ops import journal
from ops.journal import Done, Journal


def done(number: int) -> Done:
    return Done(
        id=f"action-{number}", at="2026-11-26T03:00:00+00:00", who="Mei", do="pause", target="set-1", reason="why",
        changed=True, followed=True, detail="",
    )  # fmt: skip


def test_what_was_done_is_known_after_a_restart(tmp_path: Path) -> None:
    """The file is the owner's alone; a last line that was cut short is left out, and what follows is whole."""
    path = tmp_path / journal.NAME
    first = Journal(path)
    for number in range(3):
        first.add(done(number))
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_bytes(path.read_bytes()[:-20])
    second = Journal(path)
    assert second.find("action-1") == done(1)
    assert second.find("action-2") is None
    second.add(done(7))
    assert [one.id for one in Journal(path).latest(10)] == ["action-7", "action-1", "action-0"]


def test_the_file_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full file keeps the newest actions."""
    monkeypatch.setattr(journal, "JOURNAL_BYTES", 2_000)
    monkeypatch.setattr(journal, "JOURNAL_KEPT", 5)
    one = Journal(tmp_path / journal.NAME)
    for number in range(200):
        one.add(done(number))
    assert (tmp_path / journal.NAME).stat().st_size < 4_000
    assert Journal(tmp_path / journal.NAME).latest(1)[0].id == "action-199"
