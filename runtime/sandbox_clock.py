"""The clock of a sandbox: the machine's time, and by how much the sandbox is ahead of it.

By how much stands in a file of 16 bytes that every process of the sandbox maps: a mark, then milliseconds as one
aligned word. A move writes that word, and all processes read it with their next look at the clock; a look costs less
than a microsecond and no system call of its own. The file lies in the data folder, so a sandbox that is started again
goes on in its own time. It is changed in place: a file put in its place would be another one to those who have mapped
it.

Processes are told of the file by HONGBAO_SANDBOX_CLOCK, which only the runner sets (`local.process_factory`).
"""

import asyncio
import mmap
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from errors import Refused
from runtime.clock import Clock, SystemClock

SETTING: Final = "HONGBAO_SANDBOX_CLOCK"
_MARK: Final = b"hongbao\0"
_WORD: Final = len(_MARK)
_SIZE: Final = 2 * _WORD
_LOOK_S: Final = 0.2
"""How often a pause looks whether the clock was moved."""


class SandboxClock:
    """The clock of the sandbox whose file is `path`; raises Refused `sandbox_clock_missing` if it is no such file."""

    def __init__(self, path: Path, *, writable: bool = False) -> None:
        access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ
        try:
            handle = os.open(path, os.O_RDWR if writable else os.O_RDONLY)
            try:
                self._map = mmap.mmap(handle, _SIZE, access=access)
            finally:
                os.close(handle)
        except (OSError, ValueError) as error:
            raise _missing(path, str(error)) from error
        if self._map[:_WORD] != _MARK:
            raise _missing(path, "it is another file")
        # A cast view reads and writes the machine word as a whole: no reader sees half of a move.
        self._words = memoryview(self._map).cast("q")
        self._system = SystemClock()

    @staticmethod
    def create(path: Path) -> None:
        """Make the file, 0600, not ahead at all; durable when this returns. Raises FileExistsError if there is one."""
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.write(handle, _MARK + bytes(_SIZE - _WORD))
            os.fsync(handle)
        finally:
            os.close(handle)

    @property
    def ahead_ms(self) -> int:
        """By how many milliseconds it is ahead of the machine's clock."""
        return self._words[1]

    def set_ahead(self, ahead_ms: int) -> None:
        """Move it; all processes see it at once, and it is durable when this returns. Raises ValueError backwards."""
        if ahead_ms < self._words[1]:
            raise ValueError("the clock moves ahead only: an envelope that has ended never opens again")
        self._words[1] = ahead_ms
        self._map.flush()

    def close(self) -> None:
        """Give the mapping back; the clock cannot be asked any more."""
        self._words.release()
        self._map.close()

    def now(self) -> datetime:
        """Return the present instant of the sandbox, aware, in UTC."""
        return datetime.now(UTC) + timedelta(milliseconds=self._words[1])

    def now_ms(self) -> int:
        """Return the present instant of the sandbox in milliseconds since the epoch."""
        return self._system.now_ms() + self._words[1]


def clock_at(path: str) -> Clock:
    """Return the clock of a process by its setting: the machine's if `path` is empty, else the sandbox's.

    Raises Refused `sandbox_clock_missing`.
    """
    return SandboxClock(Path(path)) if path else SystemClock()


def ahead_ms(clock: Clock) -> int:
    """Return by how many milliseconds a clock is ahead of the machine's: 0 unless it is a sandbox's."""
    return clock.ahead_ms if isinstance(clock, SandboxClock) else 0


class Pauses:
    """Pauses between the rounds of a periodic service, which end early when a sandbox's clock was moved meanwhile.

    A move during a round ends the next pause: what the round did was by the time before.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen = ahead_ms(clock)

    async def sleep(self, seconds: float) -> bool:
        """Sleep for `seconds` of the machine's time, or until the clock is moved; return whether it was moved."""
        if not isinstance(self._clock, SandboxClock):
            await asyncio.sleep(seconds)
            return False
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while (left := end - loop.time()) > 0 and self._clock.ahead_ms == self._seen:
            await asyncio.sleep(min(_LOOK_S, left))
        before, self._seen = self._seen, self._clock.ahead_ms
        return before != self._seen


def _missing(path: Path, why: str) -> Refused:
    return Refused(
        "sandbox_clock_missing",
        f"{path} is not the clock of a sandbox ({why}); bring it back from where the data folder's backup is, or begin "
        "a new sandbox in another folder with --data",
    )
