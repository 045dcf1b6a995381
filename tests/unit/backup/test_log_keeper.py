"""A receiver of the log outlives what is wrong in the installation for a while."""

import asyncio
from pathlib import Path

import pytest

from backup.folder import BackupFolder
from backup.logkeeper import LogKeeper
from errors import Refused


async def test_a_slip_in_the_installation_file_is_waited_out(
    server_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operator is just editing it: each try reads it anew."""
    monkeypatch.setattr("backup.logkeeper.RETRY_FIRST_S", 0.001)
    said: list[str] = []
    tries, stop = 0, asyncio.Event()

    def find() -> None:
        nonlocal tries
        tries += 1
        if tries == 3:
            stop.set()
        raise Refused("inventory_invalid", "installation.toml: line 7 is no TOML")

    await LogKeeper(find, BackupFolder(server_folder, "set-1"), said.append).receive(stop)
    assert tries == 3
    assert "line 7 is no TOML" in said[0]
