"""The log file of one child process: written by the child itself, bounded by the supervisor, shown if the child fails.

The child appends to the file directly and never waits for the supervisor. `bound` copies and truncates: a line that is
written in between may be lost, which is better than a full disk. On a full disk the older half is given up.

Files are 0600 in a folder of 0700, whatever the umask, and no symbolic link is followed: a log that somebody else has
put there is refused (OSError ELOOP), not written to as root.
"""

import errno
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

MAX_BYTES = 16 * 1024 * 1024
"""Kept twice: the file and one older half. It holds a day of warnings, or an hour of debug messages."""

TAIL_BYTES = 8192
"""How much `since` and `tail` read at most."""


@dataclass(frozen=True)
class LogFile:
    """The file at `path` and its older half at `path.1`."""

    path: Path

    def open(self) -> int:
        """Return a descriptor for appending, to give to a child; the caller closes it."""
        if not self.path.parent.exists():
            self.path.parent.mkdir(parents=True, mode=0o700, exist_ok=True)
        return os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)

    def size(self) -> int:
        """Return the size of the file in bytes; 0 if there is none."""
        return self.path.stat().st_size if self.path.exists() else 0

    def bound(self, limit: int = MAX_BYTES) -> bool:
        """Move the content to the older half if it is longer than `limit` bytes; returns whether it was."""
        if self.size() <= limit:
            return False
        aside = self.path.with_name(self.path.name + ".1")
        older = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with (
            os.fdopen(older, "wb") as target,
            os.fdopen(os.open(self.path, os.O_RDWR | os.O_NOFOLLOW), "r+b") as source,
        ):
            # A file that an earlier version left readable for all, too: a server's log quotes statements.
            os.fchmod(target.fileno(), 0o600)
            try:
                shutil.copyfileobj(source, target)
                target.flush()
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                # No room for the older half: the log itself must not go on growing.
                os.ftruncate(target.fileno(), 0)
            os.ftruncate(source.fileno(), 0)
        return True

    def since(self, offset: int) -> str:
        """Return what was written after `offset`, at most the last TAIL_BYTES."""
        if not self.path.exists():
            return ""
        with self.path.open("rb") as file:
            file.seek(max(offset, self.size() - TAIL_BYTES))
            return file.read(TAIL_BYTES).decode(errors="replace")

    def tail(self, lines: int = 8) -> str:
        """Return the last `lines` lines, at most TAIL_BYTES."""
        return "\n".join(self.since(0).splitlines()[-lines:])
