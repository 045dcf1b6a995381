"""`backup log all`: one log that cannot be received ends no other."""

import asyncio
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import asyncpg
import pytest

from backup import logkeeper
from backup.folder import BackupFolder
from backup.programs import Source
from cli.commands.backup import _receive
from errors import Refused, Unavailable

if TYPE_CHECKING:
    from backup.logkeeper import LogKeeper

ENDS = [
    Refused("log_lost", "the server has dropped log"),
    Unavailable("database_unavailable", "Postgres does not answer"),
    PermissionError(13, "Permission denied"),
]


class Receives:
    """Received until Ctrl-C, which comes when it has begun and the others have ended."""

    def __init__(self) -> None:
        self.ended_by_stop = False

    async def receive(self, stop: asyncio.Event, *, anew: bool) -> None:
        assert anew
        asyncio.get_running_loop().call_later(0, signal.raise_signal, signal.SIGINT)
        self.ended_by_stop = await stop.wait()


class Ends:
    """A log that cannot be begun."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    async def receive(self, _stop: asyncio.Event, *, anew: bool) -> None:
        assert anew
        raise self.error


@pytest.mark.parametrize("error", ENDS, ids=lambda one: type(one).__name__)
async def test_one_log_that_cannot_be_begun_ends_no_other(error: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    """`backup log all --anew` names the server that fails, and receives the other logs until Ctrl-C."""
    other = Receives()
    keepers = {"set-1": cast("LogKeeper", Ends(error)), "set-2": cast("LogKeeper", other)}
    assert await _receive(keepers, anew=True) == [error]
    assert other.ended_by_stop
    said = capsys.readouterr().err
    assert said.startswith("set-1: ")
    assert "the logs of the others are received further" in said


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), TimeoutError(), asyncpg.InterfaceError("connection is closed")]
)
async def test_a_fault_of_a_moment_ends_no_log(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The receiver says why and goes on: nobody would start it again while those of the other logs run."""
    monkeypatch.setattr(logkeeper, "RETRY_FIRST_S", 0.0)
    folder, said = BackupFolder(tmp_path, "set-1"), []
    folder.home.mkdir(parents=True)
    keeper = logkeeper.LogKeeper(lambda: Source("set-1", "", {}), folder, said.append)
    keeper.__dict__["_programs"] = SimpleNamespace(prepare=lambda: None)
    stop, tries = asyncio.Event(), 0

    async def attempt(_stop: asyncio.Event) -> str:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise error
        stop.set()
        return ""

    monkeypatch.setattr(keeper, "_try", attempt)
    await keeper.receive(stop)
    assert tries == 2
    (line,) = said
    assert type(error).__name__ in line
    assert "retrying until it is" in line
