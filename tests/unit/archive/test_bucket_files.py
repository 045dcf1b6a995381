"""The file system through which archives in an object store are read: whose read failed, and why."""

import hashlib
import threading
from typing import Any

import pytest

from archive.bucket.files import ROOT, ArchiveFiles, Known
from errors import HongbaoError, Unavailable


class HalfAway:
    """A bucket that is away for one object, and has other bytes than were signed in the other."""

    def part(self, name: str, start: int, end: int) -> bytes:
        if name == "away":
            raise Unavailable("bucket_away", "no answer")
        return bytes(end - start)


def test_each_read_hears_of_its_own_fault() -> None:
    """One archive is damaged, the other's store was only away, and neither reader hears of the other's."""
    bucket: Any = HalfAway()
    files = ArchiveFiles(bucket)
    hashes = hashlib.sha256(b"signed").digest()
    for name in ("away", "damaged"):
        files.add(f"{ROOT}{name}/claim.parquet", Known(name, 10, 10, hashes))
        with pytest.raises(HongbaoError):
            files.read_at(f"{ROOT}{name}/claim.parquet", 0, 10)
    damaged, away = files.fault(f"{ROOT}damaged/"), files.fault(f"{ROOT}away/")
    assert damaged is not None
    assert away is not None
    assert (damaged.code, away.code) == ("archive_corrupt", "bucket_away")
    assert files.fault("") is None


class _Watched(str):
    """A path that has another thread add a file while one looks whether it is to be forgotten."""

    __slots__ = ("adding", "files")
    adding: threading.Thread | None
    files: ArchiveFiles

    def startswith(self, *args: Any) -> bool:
        """Compare, once the other thread has added a file or waits for us."""
        if self.adding is None:
            self.adding = threading.Thread(
                target=self.files.add, args=(f"{ROOT}other/claim.parquet", Known("other", 1, 1, b""))
            )
            self.adding.start()
            self.adding.join(0.2)
        return super().startswith(*args)


def test_a_file_is_added_while_another_archive_is_forgotten() -> None:
    """By another thread: neither fails, what was to be forgotten is, and the new one is there."""
    bucket: Any = HalfAway()
    files = ArchiveFiles(bucket)
    path = _Watched(f"{ROOT}old/claim.parquet")
    path.files, path.adding = files, None
    for one in (path, f"{ROOT}old/guest.parquet"):
        files.add(one, Known("old", 1, 1, b""))
    files.forget(f"{ROOT}old/")
    assert path.adding is not None
    path.adding.join()
    assert not files.exists(f"{ROOT}old/claim.parquet")
    assert not files.exists(f"{ROOT}old/guest.parquet")
    assert files.exists(f"{ROOT}other/claim.parquet")
