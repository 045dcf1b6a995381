"""The file system through which archives in an object store are read: whose read failed, and why."""

import hashlib
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
