"""The clock of a sandbox: one word in a file that all processes map."""

import asyncio
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from errors import Refused
from runtime.clock import SystemClock, to_ms
from runtime.sandbox_clock import Pauses, SandboxClock, ahead_ms, clock_at

DAY_MS = 86_400_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "sandbox-clock"
    SandboxClock.create(found)
    return found


def test_a_move_is_seen_at_once_by_all_who_have_the_file(path: Path) -> None:
    """Whoever has mapped the file before the move reads the new time with the next look, and so does a later start."""
    before, mover = SandboxClock(path), SandboxClock(path, writable=True)
    assert before.ahead_ms == 0
    mover.set_ahead(DAY_MS)
    for clock in (before, SandboxClock(path)):
        assert clock.ahead_ms == ahead_ms(clock) == DAY_MS
        ahead = clock.now() - datetime.now(UTC)
        assert timedelta(hours=23, minutes=59) < ahead <= timedelta(days=1)
        assert abs(clock.now_ms() - to_ms(clock.now())) < 60_000


def test_it_never_goes_back(path: Path) -> None:
    """A smaller offset raises, and the clock stays where it was."""
    clock = SandboxClock(path, writable=True)
    clock.set_ahead(DAY_MS)
    with pytest.raises(ValueError, match="ahead only"):
        clock.set_ahead(DAY_MS - 1)
    assert clock.ahead_ms == DAY_MS


def test_only_who_moves_it_can_write(path: Path) -> None:
    """A process that only reads the time cannot change it."""
    with pytest.raises(TypeError):
        SandboxClock(path).set_ahead(DAY_MS)
    assert SandboxClock(path).ahead_ms == 0


def test_it_is_made_once_and_for_its_owner_alone(path: Path) -> None:
    """A second make would put the time back: it is refused; and no other user may move the clock."""
    with pytest.raises(FileExistsError):
        SandboxClock.create(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("content", [None, b"", b"hongbao\0", b"something else\0\0"])
def test_another_file_is_no_clock(tmp_path: Path, content: bytes | None) -> None:
    """A file that is missing, cut, or something else is refused with what to do: no process goes by a guess."""
    path = tmp_path / "sandbox-clock"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(Refused, match="is not the clock of a sandbox") as refused:
        SandboxClock(path)
    assert refused.value.code == "sandbox_clock_missing"


def test_a_process_without_the_setting_has_the_machines_clock(path: Path) -> None:
    """No path: SystemClock itself, as ever; a path: that sandbox's clock."""
    assert type(clock_at("")) is SystemClock
    assert ahead_ms(clock_at("")) == 0
    assert isinstance(clock_at(str(path)), SandboxClock)


async def test_a_pause_ends_when_the_clock_is_moved(path: Path) -> None:
    """A service that sleeps for an hour begins its round soon after a move, also after one during its last round."""
    pauses, mover = Pauses(SandboxClock(path)), SandboxClock(path, writable=True)
    sleeping = asyncio.ensure_future(pauses.sleep(3600))
    await asyncio.sleep(0)
    mover.set_ahead(1000)
    assert await asyncio.wait_for(sleeping, 10)
    mover.set_ahead(2000)
    assert await asyncio.wait_for(pauses.sleep(3600), 10)
    assert not await pauses.sleep(0)


async def test_a_pause_by_the_machines_clock_is_a_sleep() -> None:
    """Without a sandbox nothing is looked at."""
    assert not await Pauses(SystemClock()).sleep(0)
