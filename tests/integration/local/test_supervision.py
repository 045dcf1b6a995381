"""Supervision outlives what it meets: a full disk, a part that hangs, a part that cannot be stopped."""

import os
import signal
from pathlib import Path

import pytest

from local import answers
from local.stack import Stack
from tests.integration.local.test_stack import config, pids, until

pytestmark = pytest.mark.faults


def heard(said: list[str], words: str) -> bool:
    return any(words in line for line in said)


async def test_supervision_outlives_files_that_cannot_be_written(server_folder: Path) -> None:
    """An error of the disk at a restart is reported and the restart repeated; Ctrl-C stops every part afterwards."""
    said: list[str] = []
    async with Stack(config(server_folder, said, sets=1, servers=1)) as stack:
        blocked, log = stack.folder.path / "running.json.new", stack.folder.log("set-1-a")
        blocked.mkdir()  # the file of what runs cannot be replaced, and the log not opened: as with a full disk
        log.unlink()
        log.mkdir()
        stack.kill("set-1-a")
        await until(lambda: heard(said, "set-1-a did not start: IsADirectoryError"))
        log.rmdir()
        await until(lambda: heard(said, "set-1-a is back") and heard(said, "what runs could not be noted"))
        stack.kill("memcached")
        await until(lambda: heard(said, "memcached is back"))
        blocked.rmdir()
        stack.kill("wallet")
        await until(lambda: heard(said, "wallet is back"))
        assert pids(stack)["wallet"] == stack._wallet.pid
        parts = stack._parts()
    assert not any(part.running for part in parts)


async def test_all_parts_stop_though_one_cannot(server_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error in stopping one part is raised once all others have stopped and the folder is free again."""
    stack = Stack(config(server_folder, sets=1, servers=1))
    async with stack:
        wallet = stack._wallet
        stop = wallet.stop

        async def failing() -> None:
            await stop()
            raise OSError("cannot stop the wallet")

        monkeypatch.setattr(wallet, "stop", failing)
        parts = stack._parts()
        with pytest.raises(OSError, match="cannot stop the wallet"):
            await stack._stop()
        assert not any(part.running for part in parts)
        assert not stack.folder.running.exists()
        monkeypatch.undo()


async def test_a_part_that_does_not_answer_is_named(server_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stopped process of any kind is reported within a few probes, and again when it answers; none is restarted."""
    monkeypatch.setattr(answers, "EVERY_S", 0.2)
    said: list[str] = []
    async with Stack(config(server_folder, said, sets=1, servers=1)) as stack:
        before = pids(stack)
        silent = ("set-1-a", "memcached", "postgres-set-1")
        for name in silent:
            os.kill(before[name], signal.SIGSTOP)
        await until(lambda: all(heard(said, f"{name} runs and has not answered") for name in silent))
        for name in silent:
            os.kill(before[name], signal.SIGCONT)
        await until(lambda: all(heard(said, f"{name} answers again") for name in silent))
        assert pids(stack) == before
        assert len(said) == 2 * len(silent)
