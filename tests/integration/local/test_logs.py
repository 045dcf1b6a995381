"""Logs of child processes are bounded in a thread, so the supervisor's loop goes on serving all parts."""

import asyncio
import errno
import os
import shutil
import signal
import stat
import time
from pathlib import Path
from typing import Any

import pytest

from local import supervisor as supervisor_module
from local.supervisor import Supervisor
from local.supervisor_log import SupervisorLog
from machine.account import own_account
from machine.child import Child, Command
from machine.child_part import ChildPart
from machine.logfile import MAX_BYTES, LogFile

DISK_S = 1.5
"""What the slow disk of these tests takes for a log."""


@pytest.fixture
def slow_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    copy = shutil.copyfileobj

    def slowly(source: Any, target: Any) -> None:
        time.sleep(DISK_S)
        copy(source, target)

    monkeypatch.setattr(shutil, "copyfileobj", slowly)


class Sleeping(ChildPart):
    """A part that does nothing."""

    address = "127.0.0.1:0"

    async def start(self) -> None:
        await self.log.bound()
        self._child = Child.start(Command(["/bin/sleep", "60"], {}, own_account(), self.log))

    async def stop(self) -> None:
        await self._stop((signal.SIGTERM, 1.0))

    async def answers(self) -> bool:
        return True


async def longest_turn(until: asyncio.Event) -> float:
    """Return the longest time for which the loop did not come round (s)."""
    longest, last = 0.0, time.monotonic()
    while not until.is_set():
        await asyncio.sleep(0.005)
        now = time.monotonic()
        longest, last = max(longest, now - last), now
    return longest


@pytest.mark.usefixtures("slow_disk")
async def test_no_part_waits_while_a_long_log_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The supervisor's loop turns while a long log is copied, at a start and later, however slow the disk."""
    monkeypatch.setattr(supervisor_module, "LOG_CHECK_S", 0.05)
    part, said, done = Sleeping("one", tmp_path / "one.log", own_account()), [], asyncio.Event()
    older = tmp_path / "one.log.1"
    watching = asyncio.ensure_future(longest_turn(done))
    part.log.path.write_bytes(b"a" * (MAX_BYTES + 1))
    await part.start()
    assert older.stat().st_size == MAX_BYTES + 1
    supervisor = Supervisor([part], said.append, lambda: None)
    supervisor.start()
    part.log.path.write_bytes(b"b" * (MAX_BYTES + 2))
    async with asyncio.timeout(20):
        while older.stat().st_size != MAX_BYTES + 2 or part.log.size():
            await asyncio.sleep(0.02)
    done.set()
    assert await watching < DISK_S / 2
    await supervisor.close()
    await part.stop()
    assert said == []


async def test_on_a_full_disk_the_older_half_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log itself is cut all the same; any other error of the disk is raised, and nothing is cut."""
    log, older = LogFile(tmp_path / "one.log"), tmp_path / "one.log.1"

    def failing(number: int) -> Any:
        def copy(_: Any, target: Any) -> None:
            target.write(b"a part")
            raise OSError(number, os.strerror(number))

        return copy

    log.path.write_text("a statement")
    monkeypatch.setattr(shutil, "copyfileobj", failing(errno.EIO))
    with pytest.raises(OSError, match="Input/output"):
        await log.bound(1)
    assert log.path.read_text() == "a statement"
    monkeypatch.setattr(shutil, "copyfileobj", failing(errno.ENOSPC))
    assert await log.bound(1)
    assert (log.size(), older.stat().st_size) == (0, 0)


@pytest.mark.parametrize("way", ["bound", "set_aside"])
async def test_the_older_half_of_a_log_is_private(tmp_path: Path, way: str) -> None:
    """Both files of a log can be read by their owner alone, also where an earlier version left one of them open."""
    log, older = LogFile(tmp_path / "one.log"), tmp_path / "one.log.1"
    for text in ("one", "two"):
        os.close(log.open())
        log.path.write_text(text)
        log.path.chmod(0o600 if way == "bound" else 0o644)
        assert await log.bound(1) if way == "bound" else log.set_aside(1)
        os.close(log.open())
        assert (older.read_text(), log.size()) == (text, 0)
        assert {stat.S_IMODE(one.stat().st_mode) for one in (log.path, older)} == {0o600}
        older.chmod(0o644)


def test_what_the_supervisor_says_is_bounded_without_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own log, which no child holds open, is set aside by its name: no line is lost, and no byte is copied."""
    monkeypatch.setattr(shutil, "copyfileobj", lambda *_: 1 // 0)
    log = LogFile(tmp_path / "supervisor.log")
    log.path.write_bytes(b"a" * (MAX_BYTES + 1))
    SupervisorLog(lambda _: None, log)("a part ended")
    assert (tmp_path / "supervisor.log.1").stat().st_size == MAX_BYTES + 1
    assert "a part ended" in log.tail()


def test_a_link_in_the_place_of_a_log_is_not_set_aside(tmp_path: Path) -> None:
    """It stays where it is and is refused when the log is opened; what it leads to is not touched."""
    victim, log = tmp_path / "victim", LogFile(tmp_path / "one.log")
    victim.write_text("mine")
    log.path.symlink_to(victim)
    with pytest.raises(OSError, match="symbolic links"):
        log.set_aside(1)
    assert log.path.is_symlink()
    assert victim.read_text() == "mine"
