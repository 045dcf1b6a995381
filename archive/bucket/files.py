"""The file system through which DuckDB reads archives in an object store: by range, every block checked, the last kept.

A query reads a file's footer and the row groups that it needs. Each read is widened to whole blocks, fetched in one
request, and checked against the signed hashes; footers and row groups used lately are kept, so that the next envelope
of a day costs a request or two.
"""

import hashlib
import io
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime
from threading import Lock
from typing import Any, Final, NamedTuple

from fsspec import AbstractFileSystem

from archive.limits import CACHE_BYTES
from errors import HongbaoError, Refused
from objectstore.bucket import Bucket

PROTOCOL: Final = "archive"
ROOT: Final = f"{PROTOCOL}://"
_HASH: Final = hashlib.sha256().digest_size
_NEVER: Final = datetime(2020, 1, 1, tzinfo=UTC)
"""Of every file: an object that is named by its content does not change."""


class Known(NamedTuple):
    """A file: its object, its size, the size of its blocks and their hashes, one after the other."""

    name: str
    size: int
    block_size: int
    hashes: bytes


class ArchiveFiles(AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
    """The files that were told by `add`; no other is there. Used by several threads at once."""

    protocol = PROTOCOL
    cachable = False

    def __init__(self, bucket: Bucket) -> None:
        super().__init__()
        self._bucket = bucket
        self._known: dict[str, Known] = {}
        self._kept: OrderedDict[tuple[str, int], bytes] = OrderedDict()
        self._bytes = 0
        self._one = Lock()
        self._faults: dict[str, HongbaoError] = {}
        """By path: why its last read failed."""

    def add(self, path: str, known: Known) -> None:
        """Have a file under `path`, which begins with ROOT."""
        with self._one:
            self._known[path] = known

    def forget(self, prefix: str) -> None:
        """Have no file any more whose path begins with `prefix`."""
        with self._one:
            for path in [one for one in self._known if one.startswith(prefix)]:
                del self._known[path]
                self._faults.pop(path, None)

    def fault(self, prefix: str) -> HongbaoError | None:
        """Return why a read of a file whose path begins with `prefix` failed, once.

        DuckDB's own error shows a traceback in its place. Other threads read other files at the same time.
        """
        with self._one:
            found = [self._faults.pop(path) for path in [one for one in self._faults if one.startswith(prefix)]]
        return found[0] if found else None

    # What DuckDB calls, by fsspec's names.

    def glob(self, path: str, **_: Any) -> list[str]:
        """Return the file itself: paths are given whole."""
        return [path] if path in self._known else []

    def exists(self, path: str, **_: Any) -> bool:
        """Say whether there is such a file."""
        return path in self._known

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """Return a file's size."""
        return {"name": path, "size": self._file(path).size, "type": "file"}

    def modified(self, path: str) -> datetime:
        """Return an instant that is always the same."""
        self._file(path)
        return _NEVER

    def open(self, path: str, mode: str = "rb", **_: Any) -> io.RawIOBase:
        """Open a file to be read; raises PermissionError for writing."""
        if mode != "rb":
            raise PermissionError(f"{path} is an archive: it is only read")
        return _Reader(lambda start, end: self.read_at(path, start, end), self._file(path).size)

    def read_at(self, path: str, start: int, end: int) -> bytes:
        """Return the bytes from `start` up to `end`.

        Raises Refused `archive_missing`, `archive_corrupt`; Unavailable `bucket_away`.
        """
        known = self._file(path)
        end = min(end, known.size)
        if start >= end:
            return b""
        first, last = start // known.block_size, (end - 1) // known.block_size
        blocks = {number: self._recall(path, number) for number in range(first, last + 1)}
        missing = [number for number, block in blocks.items() if block is None]
        if missing:
            fetched = self._fetch(path, known, missing[0], missing[-1])
            for number, block in fetched.items():
                blocks[number] = block
                self._keep(path, number, block)
        whole = b"".join(block for block in blocks.values() if block is not None)
        return whole[start - first * known.block_size : end - first * known.block_size]

    def _file(self, path: str) -> Known:
        if (known := self._known.get(path)) is None:
            raise FileNotFoundError(path)
        return known

    def _fetch(self, path: str, known: Known, first: int, last: int) -> dict[int, bytes]:
        """Fetch blocks in one request and check each."""
        size = known.block_size
        try:
            content = self._bucket.part(known.name, first * size, min((last + 1) * size, known.size))
            found = {}
            for number in range(first, last + 1):
                block = content[(number - first) * size : (number - first + 1) * size]
                if hashlib.sha256(block).digest() != known.hashes[number * _HASH : (number + 1) * _HASH]:
                    raise Refused(
                        "archive_corrupt",
                        f"{self._bucket}/{known.name} is not the file that was exported: its block {number} differs",
                    )
                found[number] = block
        except HongbaoError as error:
            fault = _as_archive(error)
            with self._one:
                self._faults[path] = fault
            raise fault from error
        return found

    def _recall(self, path: str, number: int) -> bytes | None:
        with self._one:
            if (block := self._kept.get((path, number))) is not None:
                self._kept.move_to_end((path, number))
            return block

    def _keep(self, path: str, number: int, block: bytes) -> None:
        with self._one:
            if (path, number) not in self._kept:
                self._bytes += len(block)
            self._kept[path, number] = block
            while self._bytes > CACHE_BYTES:
                self._bytes -= len(self._kept.popitem(last=False)[1])


class _Reader(io.RawIOBase):
    """An open file, at a position of its own."""

    def __init__(self, read_at: Callable[[int, int], bytes], size: int) -> None:
        super().__init__()
        self._read_at = read_at
        self._size = size
        self._at = 0

    def readable(self) -> bool:
        """Yes."""
        return True

    def seekable(self) -> bool:
        """Yes."""
        return True

    def tell(self) -> int:
        """Return the position."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move the position."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = base + offset
        return self._at

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes; raises as `ArchiveFiles.read_at`."""
        end = self._size if size < 0 else self._at + size
        found = self._read_at(self._at, end)
        self._at += len(found)
        return found


def _as_archive(error: HongbaoError) -> HongbaoError:
    """Return an error of the store in the archive's words: a missing object is an archive that is missing."""
    return Refused("archive_missing", error.detail) if error.code == "object_missing" else error
