"""The log of a server in a bucket: nothing older goes over what is there, and what is not there for long is told."""

import asyncio
import os
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from backup.bucket import remote_backups as remote_module
from backup.bucket.remote_backups import RemoteBackups
from backup.bucket.shelf import Shelf
from backup.bucket.shipper import LogShipper
from backup.bucket.unput import NOTE
from backup.folder import PARTIAL, SEGMENT_BYTES, BackupFolder, LogState
from backup.limits import PARTIAL_EVERY_S, UNPUT_S
from backup.logkeeper import LogStatus
from backup.programs import Source
from errors import HongbaoError, Refused
from machine.account import Account
from objectstore import bucket as bucket_module
from objectstore.bucket import Bucket
from tests.faults.test_backup_log import postgres, sql, until, write
from tests.integration.objects.faulty_front import FaultyFront
from tests.integration.objects.fixtures import bucket, front
from tests.integration.objects.test_backup_in_bucket import receiving, remote, rows

__all__ = ["bucket", "front"]
pytestmark = pytest.mark.timeout(180)
FIRST, SECOND = "000000010000000000000001", "000000010000000000000002"


def segment(log: bytes) -> bytes:
    """A segment that is written so far: the receiver has filled it up with zeros."""
    return log.ljust(SEGMENT_BYTES, b"\0")


def written(log: Path, content: bytes, name: str = SECOND + PARTIAL) -> Path:
    """The log of a receiver, whose newest segment has come so far."""
    log.mkdir(parents=True, exist_ok=True)
    (log / name).write_bytes(segment(content))
    return log / name


def there(shelf: Shelf) -> bytes:
    """What there is of the newest segment."""
    return shelf.place.read(f"wal/{SECOND}{PARTIAL}", SEGMENT_BYTES)[0].rstrip(b"\0")


def puts(front: FaultyFront) -> int:
    return sum(one.method == "PUT" for one in front.seen)


def test_what_goes_further_stays(bucket: Bucket, front: FaultyFront, tmp_path: Path) -> None:
    """A host that comes back has less of the newest segment than the one that receives now: that is not lost."""
    shelf = Shelf(bucket, "set-1")
    back, now = (BackupFolder(tmp_path / name, "set-1") for name in ("back", "now"))
    written(back.wal, b"log")
    LogShipper(shelf, back).ship(last=True)
    assert there(shelf) == b"log"
    written(now.wal, b"log, and more")
    receiving = LogShipper(shelf, now)
    receiving.ship(last=False)
    assert there(shelf) == b"log, and more"
    again = LogShipper(shelf, back)
    for last in (False, True):
        again.ship(last=last)
        assert there(shelf) == b"log, and more"
    written(back.wal, b"log, and more than that")
    again.ship(last=True)
    assert there(shelf) == b"log, and more than that", "it has got the slot back"
    written(now.wal, b"log, and more than")
    receiving.ship(last=True)
    assert there(shelf) == b"log, and more than that", "also over what this process has put before"
    shelf.put_segment(written(now.wal, b"all of it", SECOND))
    LogShipper(shelf, back).ship(last=True)
    assert [one.name for one in shelf.log()] == [f"wal/{SECOND}"]
    assert front.seen


def test_what_holds_nothing_is_replaced(bucket: Bucket, front: FaultyFront, tmp_path: Path) -> None:
    """An object of a partial segment that is not of full size counts as none, so it keeps nothing out."""
    shelf, folder = Shelf(bucket, "set-1"), BackupFolder(tmp_path, "set-1")
    shelf.place.create(f"wal/{SECOND}{PARTIAL}", b"longer than what has come")
    written(folder.wal, b"log")
    LogShipper(shelf, folder).ship(last=False)
    assert there(shelf) == b"log"
    assert front.seen


def test_the_newest_segment_goes_up_once_a_minute_and_at_the_end(
    bucket: Bucket, front: FaultyFront, tmp_path: Path
) -> None:
    """Only if it has changed, and at once where the bucket was away the last time."""
    shelf, folder, clock = Shelf(bucket, "set-1"), BackupFolder(tmp_path, "set-1"), [0.0]
    shipper = LogShipper(shelf, folder, clock=lambda: clock[0])
    shipper.ship(last=False)
    assert puts(front) == 0, "there is no log yet"
    written(folder.wal, b"one")
    shipper.ship(last=False)
    assert (there(shelf), puts(front)) == (b"one", 1)
    written(folder.wal, b"two")
    clock[0] += PARTIAL_EVERY_S
    shipper.ship(last=False)
    assert (there(shelf), puts(front)) == (b"one", 1)
    clock[0] += 1
    shipper.ship(last=False)
    assert (there(shelf), puts(front)) == (b"two", 2)
    clock[0] += PARTIAL_EVERY_S + 1
    shipper.ship(last=False)
    shipper.ship(last=True)
    assert puts(front) == 2
    written(folder.wal, b"three")
    shipper.ship(last=True)
    assert (there(shelf), puts(front)) == (b"three", 3)
    written(folder.wal, b"four")
    clock[0] += PARTIAL_EVERY_S + 1
    front.always("PUT", 403, "AccessDenied")
    with pytest.raises(Refused) as raised:
        shipper.ship(last=False)
    assert raised.value.code == "bucket_denied"
    front.heal()
    shipper.ship(last=False)
    assert there(shelf) == b"four"


class Standing:
    """Backups whose server says that all is received."""

    def __init__(self, bucket: Bucket, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        async def received_all(_dsn: str, _newest: str | None) -> LogStatus:
            return LogStatus(LogState.KEPT, 0)

        monkeypatch.setattr(remote_module, "status_of", received_all)
        monkeypatch.setattr(bucket_module, "RETRIES", 0)
        self.backups = RemoteBackups(lambda: Source("set-1", "", {}), "set-1", bucket, work, print)
        self.shelf, self.folder = self.backups.shelf, self.backups.folder
        self.shipper = LogShipper(self.shelf, self.folder)

    def write(self, name: str, content: bytes = b"log", *, age_s: float = 0.0) -> Path:
        path = written(self.folder.wal, content, name)
        self.age(path, age_s)
        return path

    def age(self, path: Path, age_s: float) -> None:
        os.utime(path, (time.time() - age_s,) * 2)

    async def state(self) -> LogState:
        return (await self.backups.status()).state


@pytest.fixture
def standing(bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Standing:
    return Standing(bucket, tmp_path, monkeypatch)


async def test_a_segment_that_is_not_put_for_minutes_is_behind(standing: Standing) -> None:
    """One is enough, of a server that needs days for the next; put, or removed there as too old, it is well."""
    path = standing.write(FIRST, age_s=UNPUT_S - 60)
    assert await standing.state() is LogState.KEPT
    standing.age(path, UNPUT_S + 1)
    assert await standing.backups.status() == LogStatus(LogState.BEHIND, SEGMENT_BYTES)
    standing.shipper.ship(last=False)
    assert await standing.state() is LogState.KEPT
    standing.shelf.put_segment(standing.write(SECOND))
    standing.shelf.place.delete([f"wal/{FIRST}"])
    assert await standing.state() is LogState.KEPT


async def test_the_newest_segment_that_is_not_put_for_minutes_is_behind(standing: Standing, front: FaultyFront) -> None:
    """Writes are refused and reads go on: a server that never fills a segment has nothing in the bucket."""
    note = standing.folder.home / NOTE
    standing.write(SECOND + PARTIAL)
    standing.shipper.ship(last=False)
    assert await standing.state() is LogState.KEPT
    front.always("PUT", 403, "AccessDenied")
    # What came a minute ago is put within this one.
    standing.age(note, UNPUT_S - 60)
    standing.write(SECOND + PARTIAL, b"log, and more", age_s=-60)
    assert await standing.state() is LogState.KEPT
    with pytest.raises(HongbaoError):
        standing.shipper.ship(last=True)
    standing.age(note, UNPUT_S + 1)
    assert await standing.state() is LogState.BEHIND
    front.heal()
    standing.shipper.ship(last=True)
    assert await standing.state() is LogState.KEPT


async def test_what_another_host_has_put_is_not_behind(standing: Standing, tmp_path: Path) -> None:
    """A work folder whose receiver ended long ago says nothing of the log that another one keeps."""
    path = standing.write(SECOND + PARTIAL)
    standing.shipper.ship(last=True)
    standing.age(standing.folder.home / NOTE, 10 * UNPUT_S)
    standing.age(path, 10 * UNPUT_S)
    assert await standing.state() is LogState.KEPT
    other = BackupFolder(tmp_path / "other", "set-1")
    standing.shelf.put_segment(written(other.wal, b"all of it", SECOND))
    assert await standing.state() is LogState.KEPT


async def test_a_bucket_that_never_took_anything_is_behind(standing: Standing, front: FaultyFront) -> None:
    """The time counts from the receiver's first look on, and begins anew with no restart of it."""
    front.always("PUT", 507, "XMinioStorageFull")
    standing.write(SECOND + PARTIAL)
    assert await standing.state() is LogState.KEPT, "no receiver has said anything"
    note = standing.folder.home / NOTE
    for age_s, state in ((0, LogState.KEPT), (UNPUT_S + 1, LogState.BEHIND)):
        with pytest.raises(HongbaoError):
            LogShipper(standing.shelf, standing.folder).ship(last=True)
        standing.age(note, age_s)
        with pytest.raises(HongbaoError):
            LogShipper(standing.shelf, standing.folder).ship(last=True)
        assert await standing.state() is state


async def test_a_bucket_that_refuses_the_first_word_is_behind_after_minutes(
    standing: Standing, front: FaultyFront, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The receiver cannot even note whose place it is; the time counts all the same."""

    class Server:
        async def fetchval(self, _query: str) -> str:
            return "7300000000000000001"

    @asynccontextmanager
    async def connected(_dsn: str) -> AsyncIterator[Server]:
        yield Server()

    monkeypatch.setattr(remote_module, "connected", connected)
    front.always("PUT", 403, "AccessDenied")
    standing.write(SECOND + PARTIAL)
    ended = asyncio.Event()
    ended.set()
    await standing.backups._ship_until(ended, standing.shipper)
    standing.age(standing.folder.home / NOTE, UNPUT_S + 1)
    assert await standing.state() is LogState.BEHIND


@pytest.mark.long
async def test_what_is_lost_with_the_work_folder(
    server_folder: Path, account: Account, bucket: Bucket, front: FaultyFront
) -> None:
    """Nothing of the newest segment, which the server still keeps; a complete one that was not put is a hole, and told.

    A copy that is taken then leads up to now again.
    """
    server = postgres(server_folder, account)
    await server.start()
    backups = remote(server, bucket, server_folder / "work", [])

    async def received() -> bool:
        return await backups.status() == LogStatus(LogState.KEPT, 0)

    async def lose(segments: int) -> str | None:
        """Lose the folder while the bucket takes nothing; return what the newest copy lacks once it is there again."""
        async with receiving(backups):
            await until(received)
            front.always("PUT", 403, "AccessDenied")
            await (write(server, segments) if segments else sql(server, "INSERT INTO t VALUES (1)"))
            await until(received)
        shutil.rmtree(server_folder / "work")
        front.heal()
        async with receiving(backups):
            await write(server)
            await until(received)
        return backups.shelf.gap_after(backups.shelf.copies()[-1])

    try:
        await write(server)
        await backups.take()
        assert await lose(0) is None
        assert await rows(backups, server_folder / "one") == await sql(server, "SELECT count(*) FROM t")
        assert await lose(2) is not None
        async with receiving(backups):
            await backups.take()
            await write(server)
            await until(received)
        assert backups.shelf.gap_after(backups.shelf.copies()[-1]) is None
        assert await rows(backups, server_folder / "two") == await sql(server, "SELECT count(*) FROM t")
    finally:
        await server.stop()
