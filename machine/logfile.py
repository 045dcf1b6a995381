"""The log file of one child process: written by the child itself, bounded by the supervisor, shown if the child fails.

The child appends to the file directly and never waits for the supervisor. `bound` copies and truncates, in a thread: a
disk may take seconds for it. A line that is written in between may be lost, which is better than a full disk. On a full
disk the older half is given up. A log that no child holds open is renamed instead (`set_aside`).

Files are 0600 in a folder of 0700, whatever the umask, and no symbolic link is followed: a log that somebody else has
put there is refused (OSError ELOOP), not written to as root.
"""

import asyncio
import errno
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

MAX_BYTES = 16 * 1024 * 1024
"""Kept twice: the file and one older half. It holds a day of warnings, or an hour of debug messages."""

TAIL_BYTES = 8192
"""How much `since` and `tail` read at most."""


@dataclass(frozen=True)
class LogFile:
    """The file at `path` and its older half at `path.1`."""

    path: Path
    _bounding: Lock = field(default_factory=Lock, init=False, repr=False, compare=False)
    """Held while it is copied: the start of a part may come while the supervisor does it."""

    @property
    def _older(self) -> Path:
        return self.path.with_name(self.path.name + ".1")

    def open(self) -> int:
        """Return a descriptor for appending, to give to a child; the caller closes it."""
        if not self.path.parent.exists():
            self.path.parent.mkdir(parents=True, mode=0o700, exist_ok=True)
        return os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)

    def size(self) -> int:
        """Return the size of the file in bytes; 0 if there is none."""
        return self.path.stat().st_size if self.path.exists() else 0

    async def bound(self, limit: int = MAX_BYTES) -> bool:
        """Move the content to the older half if it is longer than `limit` bytes; returns whether it was.

        The loop goes on meanwhile. Cancelled, it is still done to its end.
        """
        return self.size() > limit and await asyncio.to_thread(self._copy, limit)

    def set_aside(self, limit: int = MAX_BYTES) -> bool:
        """As `bound`, at once and without losing a line: for a log that no process holds open."""
        if self.size() <= limit:
            return False
        handle = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW)
        try:
            # A file that an earlier version left readable for all, too.
            os.fchmod(handle, 0o600)
        finally:
            os.close(handle)
        self.path.replace(self._older)
        return True

    def _copy(self, limit: int) -> bool:
        with self._bounding:
            if self.size() <= limit:
                return False
            self._move()
            return True

    def _move(self) -> None:
        older = os.open(self._older, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with (
            # Without a buffer: what is left in one would be written behind the cut.
            os.fdopen(older, "wb", buffering=0) as target,
            os.fdopen(os.open(self.path, os.O_RDWR | os.O_NOFOLLOW), "r+b") as source,
        ):
            # A file that an earlier version left readable for all, too: a server's log quotes statements.
            os.fchmod(target.fileno(), 0o600)
            try:
                shutil.copyfileobj(source, target)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                # No room for the older half: the log itself must not go on growing.
                os.ftruncate(target.fileno(), 0)
            os.ftruncate(source.fileno(), 0)

    def since(self, offset: int) -> str:
        """Return what was written after `offset`, at most the last TAIL_BYTES."""
        if not self.path.exists():
            return ""
        with self.path.open("rb") as file:
            file.seek(max(offset, self.size() - TAIL_BYTES))
            return file.read(TAIL_BYTES).decode(errors="replace")

    def last(self, size: int) -> bytes:
        """Return the last `size` bytes, of the older half too if the file is shorter."""
        newer = _last_of(self.path, size)
        return _last_of(self._older, size - len(newer)) + newer

    def tail(self, lines: int = 8) -> str:
        """Return the last `lines` lines, at most TAIL_BYTES."""
        return "\n".join(self.since(0).splitlines()[-lines:])


def _last_of(path: Path, size: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - size))
            return file.read(size)
    except FileNotFoundError:
        return b""
