"""The log file of one child process: written by the child itself, kept small, shown when the child fails.

A child appends to the file directly, so that a busy supervisor never makes it wait. Bounding is copy and
truncate: a line written in between may be lost, a full disk is worse.
"""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

MAX_BYTES = 16 * 1024 * 1024
"""Together with one older copy of the same size: a day of warnings, an hour of a very chatty process."""

TAIL_BYTES = 8192


@dataclass(frozen=True)
class LogFile:
    """The file at `path` and its older half at `path.1`."""

    path: Path

    def open(self) -> int:
        """Return a descriptor to give to a child; the caller closes it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def size(self) -> int:
        """Return how long the file is now."""
        return self.path.stat().st_size if self.path.exists() else 0

    def bound(self, limit: int = MAX_BYTES) -> bool:
        """Move the content to the older copy when it is longer than `limit`; say whether it was."""
        if self.size() <= limit:
            return False
        older = os.open(self.path.with_name(self.path.name + ".1"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with self.path.open("rb") as source, os.fdopen(older, "wb") as target:
            # Also one that an earlier version left readable for all: a server's log quotes statements.
            os.fchmod(target.fileno(), 0o600)
            shutil.copyfileobj(source, target)
        os.truncate(self.path, 0)
        return True

    def since(self, offset: int) -> str:
        """Return what was written after `offset`, at most the last few kilobytes."""
        if not self.path.exists():
            return ""
        with self.path.open("rb") as file:
            file.seek(max(offset, self.size() - TAIL_BYTES))
            return file.read(TAIL_BYTES).decode(errors="replace")

    def tail(self, lines: int = 8) -> str:
        """Return the last lines."""
        return "\n".join(self.since(0).splitlines()[-lines:])
