"""A backup as a folder: base copies, the log since, and which instants a restore from them can reach.

    FOLDER/set-1/base/20261121T101500Z/       a copy of the whole cluster, verified (pg_basebackup, pg_verifybackup)
    FOLDER/set-1/wal/                         every segment of its log since, as pg_receivewal writes it
    FOLDER/set-1/wal-until-20261120T091500Z/  a log that ended: the segments after it are lost

A restore takes the newest base copy that had ended by the instant asked for and replays the logs up to it.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Final

from backup.choice import copy_for
from errors import Refused
from machine.file_lock import symlink_refused
from machine.postgres.cluster_folder import read_system_identifier
from runtime.files import sync_folder

NAME_FORMAT: Final = "%Y%m%dT%H%M%SZ"
"""Of a base copy's name: the instant by which it had ended, in a folder and in a bucket."""
PARTIAL: Final = ".partial"
"""Ends the name of the segment that is being received."""
_SEGMENT = re.compile(r"^[0-9A-F]{24}(\.partial)?$")
_LABEL = "backup_label"
_MANIFEST = "backup_manifest"
_CONTROL = "global/pg_control"
_PARTS = (_LABEL, _MANIFEST, _CONTROL)
"""What every base copy has: a folder that lacks one of them is half removed."""
_SEGMENT_BITS = 24
SEGMENT_BYTES = 1 << _SEGMENT_BITS
"""Segments are of 16 MB: 256 of them make one log file, whose number is the high half of a position in the log."""


class LogState(StrEnum):
    """How the kept log stands against its server. All states but `NONE` and `KEPT` need an operator."""

    NONE = "none"
    """No log was ever kept: a restore can reach only the base copies themselves."""
    KEPT = "kept"
    """A receiver is connected and has all of the server's log but the segment being written."""
    AWAY = "away"
    """No receiver is connected; the server still keeps what was not received."""
    BEHIND = "behind"
    """A receiver is connected, and whole segments are still to be received, or log to be put into the bucket."""
    LOST = "lost"
    """The server has dropped log that was not received, or does not keep it: the log has a hole, or will have one."""


@dataclass(frozen=True)
class Base:
    """A complete base copy: it had ended by `taken_at`, and its replay begins in `first_segment`."""

    path: Path
    taken_at: datetime
    first_segment: str


@dataclass(frozen=True)
class BackupFolder:
    """The backups of one server (a SET or the wallet), by its name in the folder."""

    root: Path
    server: str

    @property
    def home(self) -> Path:
        """The folder with all that concerns this server."""
        return self.root / self.server

    @property
    def base(self) -> Path:
        """The base copies; the name of one that is being taken ends in `.new` until `seal` renames it."""
        return self.home / "base"

    @property
    def wal(self) -> Path:
        """The log that is being received."""
        return self.home / "wal"

    def refuse_links(self) -> None:
        """Raise Refused `symlink_refused` if a folder of ours is a link: whoever put it there leads root elsewhere."""
        for folder in (self.home, self.base, self.wal):
            if folder.is_symlink():
                raise symlink_refused(folder)

    def logs(self) -> list[Path]:
        """Return all folders with log, the newest first."""
        ended = sorted(self.home.glob("wal-until-*Z"), reverse=True)
        return [*([self.wal] if self.wal.is_dir() else []), *ended]

    def end_log(self, now: datetime) -> None:
        """Put the log aside so that another one can begin that does not follow it. Restores go on using it."""
        if self.wal.is_dir() and any(self.wal.iterdir()):
            self.wal.rename(_free(self.home, "wal-until-", now))

    def seal(self, unfinished: Path, ended_at: datetime) -> Base:
        """Make a verified copy count, durably, by renaming it to the instant at which it had ended."""
        done = _free(self.base, "", ended_at)
        unfinished.rename(done)
        sync_folder(self.base)
        return next(one for one in self.bases() if one.path == done)

    def rename_free(self, base: Base, taken: Collection[str]) -> Base:
        """Give a copy the name of the first later second that is not `taken`; its own if that is free."""
        name, at = base.path.name, base.taken_at
        while name in taken:
            at += timedelta(seconds=1)
            name = at.strftime(NAME_FORMAT)
        if name == base.path.name:
            return base
        path = base.path.rename(self.base / name)
        sync_folder(self.base)
        return Base(path, at, base.first_segment)

    def bases(self) -> list[Base]:
        """Return the complete base copies, oldest first: by where their log begins, whatever this machine's clock said.

        The name of a segment begins with its timeline, and what was restored and promoted is on a later one.
        """
        found = [] if not self.base.is_dir() else [_base(one) for one in self.base.iterdir() if not one.suffix]
        return sorted((one for one in found if one is not None), key=lambda one: (one.first_segment, one.taken_at))

    def check_cluster(self, system_identifier: str) -> None:
        """Raise Refused `backup_of_another` if the copies here are of another cluster than this one.

        Two installations that share a folder would prune each other's copies, and mix their logs.
        """
        for base in self.bases()[-1:]:
            if (found := read_system_identifier(base.path)) != system_identifier:
                raise _of_another(base, found, system_identifier, f"choose another folder, or move {self.home} aside")

    def check_copy(self, base: Base, system_identifier: str) -> None:
        """Raise Refused `backup_of_another` if a copy that is to be put is not of this cluster. It stays."""
        if (found := read_system_identifier(base.path)) != system_identifier:
            raise _of_another(base, found, system_identifier, "it was not put; move it aside")

    def base_for(self, until: datetime | None) -> Base:
        """Return the newest copy that had ended by `until` (None: the newest of all); raises Refused `no_backup`."""
        return copy_for(self.bases(), until, self.root, self.server)

    def newest(self) -> str | None:
        """Return the newest segment kept, complete or partial; None if there is none."""
        return max(self.segments(), default=None)

    def segments(self) -> set[str]:
        """Return the names of all segments kept, complete or partial."""
        return _segments(self.logs())

    def gap_after(self, base: Base) -> str | None:
        """Return the first segment that is missing after a base copy, or None.

        The newest segment may be partial: the server is writing it. If no log is kept, none is missing: the copy can be
        restored alone. Whether the log reaches as far as the server's is `log_state`.
        """
        logs = self.logs()
        if not logs:
            return None
        # A base copy holds the log that was written while it was taken.
        return first_gap(_segments([*logs, base.path / "pg_wal"]), base.first_segment)


def first_gap(segments: Collection[str], first: str) -> str | None:
    """Return the first segment that is missing from `first` on, or None."""
    behind = sorted(name for name in segments if name >= first)
    if not behind or behind[0] != first:
        return first
    expected = first
    for name in behind:
        # A timeline begins in a segment that the one before it has, or in the next.
        same = name[:8] == expected[:8]
        if name != expected if same else segment_start(name) > segment_start(expected):
            return name[:8] + expected[8:]
        expected = _next(name)
    return None


def log_state(newest: str | None, server: str, slot: str | None, *, connected: bool) -> LogState:
    """Judge the kept log. `newest` is its newest segment, `server` the one the server writes.

    `slot` is the wal_status of the receiver's slot, None where it has none.
    """
    if slot is None:
        return LogState.NONE if newest is None else LogState.LOST
    if slot == "lost" or (newest is not None and newest[:8] > server[:8]):
        return LogState.LOST
    if not connected:
        return LogState.AWAY
    # One segment less: the server may have begun another this instant.
    return LogState.KEPT if newest is not None and server <= _next(newest) else LogState.BEHIND


def lsn_position(lsn: str) -> int:
    """Return the position in the log, in bytes, of an LSN as Postgres writes it (`2/5000060`)."""
    high, low = lsn.split("/")
    return int(high, 16) << 32 | int(low, 16)


def segment_start(segment: str) -> int:
    """Return the position in the log, in bytes, at which a segment begins."""
    return int(segment[8:16], 16) << 32 | int(segment[16:], 16) << _SEGMENT_BITS


def segment_of(path: Path) -> str | None:
    """Return the name of the segment that a file of the log holds, complete or partial; None if it holds none."""
    return path.name.removesuffix(PARTIAL) if _SEGMENT.match(path.name) else None


def is_empty(path: Path) -> bool:
    """Say whether a file of the log is a partial segment that holds nothing yet.

    pg_receivewal fills it up with zeros before it writes into it; killed meanwhile, it leaves one that is shorter.
    """
    try:
        return path.suffix == PARTIAL and path.stat().st_size != SEGMENT_BYTES
    except FileNotFoundError:
        return False  # it has been completed, and has another name now


def _segments(folders: list[Path]) -> set[str]:
    kept = (path for folder in folders if folder.is_dir() for path in folder.iterdir())
    return {path.name.removesuffix(PARTIAL) for path in kept if _SEGMENT.match(path.name) and not is_empty(path)}


def _free(folder: Path, prefix: str, at: datetime) -> Path:
    """Return an unused path named by the first whole second that is not before `at`."""
    second = at.astimezone(UTC).replace(microsecond=0)
    if second < at:
        second += timedelta(seconds=1)
    while (path := folder / f"{prefix}{second.strftime(NAME_FORMAT)}").exists():
        second += timedelta(seconds=1)
    return path


def _of_another(base: Base, found: str, system_identifier: str, do: str) -> Refused:
    text = f"{base.path} is a copy of the cluster {found}, the server is {system_identifier}; {do}"
    return Refused("backup_of_another", text)


def _base(folder: Path) -> Base | None:
    if not all((folder / part).exists() for part in _PARTS):
        return None
    label = (folder / _LABEL).read_text(encoding="utf-8")
    found = re.search(r"START WAL LOCATION: \S+ \(file ([0-9A-F]{24})\)", label)
    if found is None:
        return None
    try:
        taken_at = datetime.strptime(folder.name, NAME_FORMAT).replace(tzinfo=UTC)
    except ValueError:
        return None
    return Base(folder, taken_at, found[1])


def _next(segment: str) -> str:
    """Return the name of the segment that follows in the same timeline."""
    timeline, log, number = segment[:8], int(segment[8:16], 16), int(segment[16:], 16) + 1
    if number == 1 << (32 - _SEGMENT_BITS):
        log, number = log + 1, 0
    return f"{timeline}{log:08X}{number:08X}"
