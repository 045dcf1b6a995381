"""Puts a log into a bucket while it is received."""

import hashlib
import time
from collections.abc import Callable
from pathlib import Path

from backup.bucket.shelf import Shelf
from backup.bucket.unput import begin_note, newest_partial, note_all_put
from backup.folder import PARTIAL, BackupFolder, segment_of
from backup.limits import PARTIAL_EVERY_S


class LogShipper:
    """Puts the log of one server.

    Several hosts may have a receiver, and the server's slot decides which of them receives. What the others have of the
    newest segment is old, or all that was received of a server that is lost: it is put unless what is there goes
    further, whoever holds the slot.
    """

    def __init__(self, shelf: Shelf, folder: BackupFolder, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._shelf = shelf
        self._folder = folder
        self._clock = clock
        self._put: set[str] = set()
        """Complete files of the log that this process has put."""
        self._newest = ("", "", b"")
        """The partial segment that was put last: its name, the ETag that it got, the SHA-256 of what was put."""
        self._newest_at = -PARTIAL_EVERY_S - 1

    def ship(self, *, last: bool) -> None:
        """Put what is complete of the log, and once in PARTIAL_EVERY_S the newest segment as far as it goes. Blocks.

        `last`: this is the end of the process. The newest complete segment stays in the work folder: there the receiver
        goes on.
        """
        if not self._folder.wal.is_dir():
            return
        try:
            for log in reversed(self._folder.logs()):
                self._ship_complete(log)
            if last or self._clock() - self._newest_at > PARTIAL_EVERY_S:
                self._ship_newest()
        finally:
            # Last: whatever becomes of the note, the log goes up.
            begin_note(self._folder)

    def _ship_complete(self, log: Path) -> None:
        complete = sorted(
            path for path in log.iterdir() if path.suffix != PARTIAL and (segment_of(path) or path.suffix == ".history")
        )
        for path in complete:
            if path.name not in self._put:
                self._shelf.put_segment(path)
                self._put.add(path.name)
        segments = [path for path in complete if segment_of(path)]
        for path in segments[:-1] if log == self._folder.wal else segments:
            path.unlink()

    def _ship_newest(self) -> None:
        partial = newest_partial(self._folder)
        if partial is not None:
            try:
                content = partial.read_bytes()
            except FileNotFoundError:
                return  # it has been completed, and goes with the next look
            self._put_newest(partial.name, content)
        self._newest_at = self._clock()
        note_all_put(self._folder)

    def _put_newest(self, name: str, content: bytes) -> None:
        known, etag, put = self._newest
        digest = hashlib.sha256(content).digest()
        if (known, put) == (name, digest):
            return
        new = self._shelf.put_partial(name, content, etag if known == name else "")
        # Without an ETag: another host's goes further, and is read again once there is more here.
        self._newest = (name, new or "", digest)
