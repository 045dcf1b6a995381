"""What of a received log is not in the bucket, and since when: it would be lost with this machine.

Of a complete segment the file says when its last byte came. The newest segment changes all the time, so the receiver
notes in the work folder when it had put all of it: the file NOTE, whose content is nothing.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from backup.folder import PARTIAL, BackupFolder, is_empty, segment_of
from backup.limits import UNPUT_S, UNPUT_SEGMENTS
from objectstore.bucket import Held

NOTE: Final = "log.put"
_PLACE: Final = "wal/"


class Unput(NamedTuple):
    """How many segments wait to be put, the newest included, and since when the oldest does, by this machine's clock.

    `since` is infinite where nothing waits, or where no receiver has said when it had put the newest.
    """

    segments: int
    since: float

    def is_late(self, now: float) -> bool:
        """Say whether that is more, or older, than what a receiver that puts its log has."""
        return self.segments > UNPUT_SEGMENTS or now - self.since > UNPUT_S


def note_all_put(folder: BackupFolder) -> None:
    """Note that all that is received is in the bucket, now."""
    handle = os.open(folder.home / NOTE, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        os.utime(handle)
    finally:
        os.close(handle)


def begin_note(folder: BackupFolder) -> None:
    """Count from now where no receiver has noted anything yet; without a work folder nothing is received."""
    if folder.home.is_dir() and not (folder.home / NOTE).exists():
        note_all_put(folder)


def find_unput(folder: BackupFolder, held: Sequence[Held]) -> Unput:
    """Compare the log in the work folder with the objects of the log."""
    waiting = list(_waiting(folder, {one.name.removeprefix(_PLACE): one.put_at.timestamp() for one in held}))
    return Unput(len(waiting), min(waiting, default=float("inf")))


def newest_partial(folder: BackupFolder) -> Path | None:
    """Return the file of the segment that is being received; None if there is none, or nothing in it.

    A timeline that ended leaves a partial segment behind, whose log the next timeline's first segment has as well.
    """
    if not folder.wal.is_dir():
        return None
    partial = [one for one in folder.wal.iterdir() if one.suffix == PARTIAL and segment_of(one)]
    newest = max(partial, default=None)
    return None if newest is None or is_empty(newest) else newest


def _waiting(folder: BackupFolder, put: dict[str, float]) -> Iterator[float]:
    """Yield for each segment that is not put since when it waits. `put`: objects of the log, and when they came."""
    # What is older than all that is there has been removed there: no copy needs it.
    oldest = min(filter(None, (segment_of(Path(name)) for name in put)), default="")
    newest = newest_partial(folder)
    complete = [one for log in folder.logs() for one in log.iterdir() if one.suffix != PARTIAL and segment_of(one)]
    for path in complete:
        if path.name not in put and path.name >= oldest and (came := _changed_at(path)) is not None:
            yield came
    if newest is None or newest.stem in put or newest.stem < oldest:
        return
    changed = _changed_at(newest)
    if changed is not None and changed > put.get(newest.name, 0.0):
        noted = _changed_at(folder.home / NOTE)
        yield float("inf") if noted is None else noted


def _changed_at(path: Path) -> float | None:
    """Return when a file was written last; None if it is not there any more: it has been put meanwhile."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return None
