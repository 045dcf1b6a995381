"""Which base copies and which log may go: the newest copies are kept, and all log since the oldest of these.

Whatever is removed, each copy that is kept can still be restored to every instant to which it could be before.
"""

import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from backup.choice import keep_newest
from backup.folder import BackupFolder, Base, segment_of
from errors import Refused
from machine.file_lock import hold_lock
from runtime.files import sync_folder

READERS = "readers.lock"
"""A restore holds it shared, `PrunePlan.remove` for itself: no copy goes while it is being read."""
GONE = ".gone"
"""Suffix of a copy that is being removed; it does not count any more."""


def remove_copies(folder: BackupFolder, bases: Sequence[Base]) -> None:
    """Remove copies, and what is left of those that a killed call was removing.

    Killed anywhere: a copy is whole, or it does not count and goes with the next call.
    """
    for base in bases:
        # By a rename: a copy that is half removed must not look like one. Another call may have done it.
        with suppress(FileNotFoundError):
            base.path.rename(base.path.with_name(base.path.name + GONE))
            sync_folder(folder.base)
    for left in folder.base.glob(f"*{GONE}"):
        shutil.rmtree(left)


@dataclass(frozen=True)
class PrunePlan:
    """What would be removed: copies, and segments of the log that no kept copy needs; `bytes` is their size."""

    folder: BackupFolder
    bases: list[Base]
    segments: list[Path]
    bytes: int

    def remove(self) -> None:
        """Remove it, the copies first; killed anywhere, the next call finishes. Raises Refused `backup_runs`."""
        home = self.folder.home
        if not home.is_dir():
            return
        self.folder.refuse_links()
        with hold_lock(home / "take.lock", self._busy), hold_lock(home / READERS, self._busy):
            remove_copies(self.folder, self.bases)
            for segment in self.segments:
                segment.unlink(missing_ok=True)
            for ended in self.folder.logs()[1:]:
                if not any(segment_of(one) for one in ended.iterdir()):
                    shutil.rmtree(ended)

    def _busy(self, holder: str) -> Refused:
        who = f"process {holder}" if holder else "a restore"
        return Refused("backup_runs", f"{who} is at work in {self.folder.home}; wait for it, nothing was removed")


def plan_prune(folder: BackupFolder, keep: int) -> PrunePlan:
    """Return what keeping the newest `keep` complete copies (at least 1) makes needless; changes nothing.

    Without a copy nothing goes: log alone may be all there is. Segments of the log that is being received go only up to
    the oldest kept copy's first, so the receiver is not disturbed.
    """
    gone, kept, needed_from = keep_newest(folder.bases(), keep)
    if not kept:
        return PrunePlan(folder, [], [], 0)
    segments = [
        path
        for log in folder.logs()
        for path in sorted(log.iterdir())
        if (name := segment_of(path)) and name < needed_from
    ]
    size = sum(_size(base.path) for base in gone) + sum(path.stat().st_size for path in segments)
    return PrunePlan(folder, gone, segments, size)


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
