"""What a backup of a SET is, as a folder: base copies, the log that followed, and which instants they can give back.

    FOLDER/set-1/base/20261121T101500Z/   a copy of the whole cluster, verified (pg_basebackup, pg_verifybackup)
    FOLDER/set-1/wal/                     every segment of its log since, as pg_receivewal writes it

A restore takes the newest base copy that had ended by the instant asked for and replays the log up to it.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from envelope.errors import Refused

_NAME = "%Y%m%dT%H%M%SZ"
_SEGMENT = re.compile(r"^[0-9A-F]{24}(\.partial)?$")
_LABEL = "backup_label"
_MANIFEST = "backup_manifest"


@dataclass(frozen=True)
class Base:
    """A base copy that is whole. `taken_at` is when it had ended; `first_segment` is where its replay begins."""

    path: Path
    taken_at: datetime
    first_segment: str


@dataclass(frozen=True)
class BackupFolder:
    """The backups of one SET."""

    root: Path
    set_name: str

    @property
    def wal(self) -> Path:
        """Where the log is kept."""
        return self.root / self.set_name / "wal"

    @property
    def unfinished(self) -> Path:
        """Where a base copy is taken; it counts once `seal` has renamed it."""
        return self.root / self.set_name / "base" / "unfinished.new"

    def seal(self, ended_at: datetime) -> Path:
        """Let the copy count: it is whole, was verified, and had ended at this instant."""
        done = self.unfinished.with_name(ended_at.astimezone(UTC).strftime(_NAME))
        self.unfinished.rename(done)
        return done

    def bases(self) -> list[Base]:
        """Return the base copies that are whole, oldest first."""
        folder = self.root / self.set_name / "base"
        found = [] if not folder.is_dir() else [_base(one) for one in folder.iterdir() if not one.suffix]
        return sorted((one for one in found if one is not None), key=lambda one: one.taken_at)

    def base_for(self, until: datetime | None) -> Base:
        """Return the copy from which `until` (None: the end of the log) can be reached; raises Refused `no_backup`."""
        fit = [one for one in self.bases() if until is None or one.taken_at <= until]
        if not fit:
            when = "" if until is None else f" that had ended by {until.isoformat()}"
            raise Refused("no_backup", f"{self.root} has no backup of {self.set_name}{when}; take one first")
        return fit[-1]

    def gap_after(self, base: Base) -> str | None:
        """Return the first segment that is missing in the log after a base copy; None where there is no hole.

        The last segment may be partial: it is the one that is being written. Without a log there is no hole either:
        what can be had back is the copy alone.
        """
        if not self.wal.is_dir():
            return None
        # A base copy brings the log that it needs itself.
        kept = [*self.wal.iterdir(), *(base.path / "pg_wal").iterdir()]
        names = {path.name.removesuffix(".partial") for path in kept if _SEGMENT.match(path.name)}
        behind = sorted(name for name in names if name >= base.first_segment)
        if not behind or behind[0] != base.first_segment:
            return base.first_segment
        expected = base.first_segment
        for name in behind:
            if name[:8] == expected[:8] and name != expected:
                return expected
            expected = _next(name)
        return None


def _base(folder: Path) -> Base | None:
    label = folder / _LABEL
    if not (label.exists() and (folder / _MANIFEST).exists()):
        return None
    found = re.search(r"START WAL LOCATION: \S+ \(file ([0-9A-F]{24})\)", label.read_text(encoding="utf-8"))
    if found is None:
        return None
    try:
        taken_at = datetime.strptime(folder.name, _NAME).replace(tzinfo=UTC)
    except ValueError:
        return None
    return Base(folder, taken_at, found[1])


def _next(segment: str) -> str:
    """Return the name that follows in a timeline of segments of 16 MB: 256 of them make one log file."""
    timeline, log, number = segment[:8], int(segment[8:16], 16), int(segment[16:], 16) + 1
    if number == 256:  # noqa: PLR2004 - see above
        log, number = log + 1, 0
    return f"{timeline}{log:08X}{number:08X}"
