"""The journal of actions: what was answered is in it, also after a crash in the middle of a line."""

import errno
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
    """A full file is kept under another name, and the newest actions stay."""
    monkeypatch.setattr(journal, "JOURNAL_BYTES", 2_000)
    monkeypatch.setattr(journal, "JOURNAL_KEPT", 5)
    one = Journal(tmp_path / journal.NAME)
    for number in range(200):
        one.add(done(number))
    assert (tmp_path / journal.NAME).stat().st_size < 4_000
    assert Journal(tmp_path / journal.NAME).latest(1)[0].id == "action-199"
    lines = b"".join(file.read_bytes() for file in tmp_path.glob("ops-actions*.jsonl"))
    assert all(f'"action-{number}"'.encode() in lines for number in range(200)), "older files have the older ones"


def test_what_cannot_be_written_is_known_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk undoes nothing, so the action is not done again when it arrives again."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(journal, "_write", full)
    one = Journal(tmp_path / journal.NAME)
    kept = one.add(done(1))
    assert "not in the journal" in kept.detail
    assert "No space left" in kept.detail
    assert one.find("action-1") == kept
