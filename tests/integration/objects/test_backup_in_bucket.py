"""Backups whose place is a bucket: what was put comes back, and nothing half, changed or foreign is restored."""

import asyncio
import io
import json
import os
import shutil
import tarfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from archive import store
from backup.backups import Backups
from backup.bucket import remote_backups as remote_module
from backup.bucket.manifest import Copy
from backup.bucket.remote_backups import RemoteBackups
from backup.bucket.shelf import Shelf
from backup.folder import BackupFolder, Base, LogState
from backup.limits import UNPUT_SEGMENTS
from backup.logkeeper import LogStatus
from backup.programs import Source
from doctor import backup_log
from errors import HongbaoError, Refused, Unavailable
from machine.account import Account
from machine.file_lock import hold_lock
from machine.postgres.server import Postgres
from objectstore import bucket as bucket_module
from objectstore.bucket import Bucket
from retention import kinds
from retention.in_bucket import CopiesInBucket
from tests.faults.test_backup_log import postgres, source, sql, until, write
from tests.integration.archive.test_commands import Kept, kept
from tests.integration.objects.faulty_front import Answer, FaultyFront
from tests.integration.objects.fixtures import bucket, front

if TYPE_CHECKING:
    from installation.access import Access

__all__ = ["bucket", "front", "kept"]
pytestmark = pytest.mark.timeout(180)
SEGMENTS = [f"00000001000000000000000{number}" for number in range(1, 7)]


def remote(server: Postgres, bucket: Bucket, work: Path, said: list[str]) -> RemoteBackups:
    return RemoteBackups(lambda: source(server), "set-1", bucket, work, said.append)


@asynccontextmanager
async def receiving(backups: RemoteBackups) -> AsyncIterator[None]:
    stop = asyncio.Event()
    running = asyncio.ensure_future(backups.receive(stop))
    try:
        yield
    finally:
        stop.set()
        await running


async def rows(backups: RemoteBackups, into: Path) -> int:
    server = await backups.restore(into, None)
    try:
        return await sql(server, "SELECT count(*) FROM t")
    finally:
        await server.stop()


async def test_a_server_comes_back_from_a_bucket(
    server_folder: Path, account: Account, bucket: Bucket, front: FaultyFront
) -> None:
    """Copied and received while it serves and the bucket is away for a while; another machine restores the last row."""
    server, said = postgres(server_folder, account), list[str]()
    await server.start()
    backups = remote(server, bucket, server_folder / "work", said)
    try:
        async with receiving(backups):
            await write(server, 1)
            full = Answer(507, "XMinioStorageFull")
            front.breaks = lambda asked: (
                full if asked.method in ("PUT", "POST") and "cluster" not in asked.path else None
            )
            with pytest.raises(Refused) as raised:
                await backups.take()
            assert raised.value.code == "bucket_full"
            assert backups.shelf.copies() == []
            await write(server, 2)
            await until(lambda: any("not put just now" in one for one in said))
            front.heal()
            first = await backups.take()
            assert [one.name for one in backups.shelf.copies()][-1] == first.name
            assert len(backups.shelf.copies()) == 2, "what the failed call took is put by the next one"
            assert backups.folder.bases() == []
            await write(server, 2)

            async def received() -> bool:
                status = await backups.status()
                return status == LogStatus(LogState.KEPT, 0)

            await until(received)
            access = SimpleNamespace(superuser_dsn=lambda _: source(server).dsn, passwords=lambda _: {})

            async def doctor_says_so() -> bool:
                return await backup_log._state(cast("Access", access), "set-1", str(bucket)) is LogState.KEPT

            await until(doctor_says_so)
        assert [backups.shelf.gap_after(one) for one in backups.shelf.copies()] == [None, None]
        assert len(list(backups.folder.wal.iterdir())) <= 3, "what was put is not kept here, too"
        wanted = await sql(server, "SELECT count(*) FROM t")
        shutil.rmtree(server_folder / "work")
        elsewhere = remote(server, bucket, server_folder / "work2", said)
        assert await rows(elsewhere, server_folder / "restored") == wanted
        with pytest.raises(Refused) as raised:
            await elsewhere.restore(server_folder / "postgres" / "set-1", None)
        assert raised.value.code == "folder_taken", "a living cluster is not restored over"
        assert [one.name for one in (server_folder / "work2").iterdir() if one.name.startswith("restoring")] == []
    finally:
        await server.stop()


async def test_another_cluster_is_kept_out(
    server_folder: Path, account: Account, bucket: Bucket, front: FaultyFront
) -> None:
    """A place that has another cluster's backups takes neither copies nor log of this one."""
    shelf = Shelf(bucket, "set-1")
    shelf.check_cluster("7")
    server = postgres(server_folder, account)
    await server.start()
    backups = remote(server, bucket, server_folder / "work", [])
    try:
        for work in (backups.take(), backups.receive(asyncio.Event())):
            with pytest.raises(Refused) as raised:
                await work
            assert raised.value.code == "backup_of_another"
    finally:
        await server.stop()
    assert [one.name for one in shelf.place.listed()] == ["cluster.json"]
    assert front.seen


def copy_in(folder: Path, name: str, first: str) -> Base:
    """Something like a base copy: what the code looks at of one."""
    home = folder / "base" / name
    for part in ("global", "pg_wal"):
        (home / part).mkdir(parents=True)
    (home / "global" / "pg_control").write_bytes((7).to_bytes(8, "little") + os.urandom(100))
    (home / "pg_wal" / first).write_bytes(b"log")
    (home / "backup_label").write_text(f"START WAL LOCATION: 0/1 (file {first})\n")
    (home / "backup_manifest").write_text("{}")
    return BackupFolder(folder.parent, folder.name).bases()[-1]


@pytest.fixture
def shelf(bucket: Bucket, front: FaultyFront, tmp_path: Path) -> Shelf:
    """Two copies, and the log from the first one on."""
    one = Shelf(bucket, "set-1")
    for number, name in ((0, "20261121T101500Z"), (3, "20261122T101500Z")):
        one.put_copy(copy_in(tmp_path / "set-1", name, SEGMENTS[number]), tmp_path)
    for segment in SEGMENTS:
        (tmp_path / segment).write_bytes(segment.encode())
        one.put_segment(tmp_path / segment)
    assert front.seen
    return one


def refused(work: object) -> str:
    with pytest.raises(HongbaoError) as raised:
        work()  # type: ignore[operator]
    assert len(raised.value.detail) > 20
    return raised.value.code


def fetched(shelf: Shelf, folder: Path) -> BackupFolder:
    """Fetch the newest copy into a folder."""
    into = BackupFolder(folder, "set-1")
    shelf.fetch(shelf.copies()[-1], into)
    return into


def test_what_was_put_comes_back(shelf: Shelf, tmp_path: Path) -> None:
    """A copy, byte for byte, and the log from its first segment on; another segment of the same name is refused."""
    into = fetched(shelf, tmp_path / "back")
    (base,) = into.bases()
    before = tmp_path / "set-1" / "base" / base.path.name
    for path in before.rglob("*"):
        if path.is_file():
            assert (base.path / path.relative_to(before)).read_bytes() == path.read_bytes()
    assert into.gap_after(base) is None
    assert sorted(path.name for path in into.wal.iterdir()) == SEGMENTS[3:]
    shelf.put_segment(tmp_path / SEGMENTS[0])
    (tmp_path / SEGMENTS[0]).write_bytes(b"another cluster's")
    assert refused(lambda: shelf.put_segment(tmp_path / SEGMENTS[0])) == "backup_of_another"


def test_a_copy_without_its_log_is_told(shelf: Shelf) -> None:
    """With a segment gone the copies that need it lack it; with the copies gone there is no backup."""
    assert [shelf.gap_after(one) for one in shelf.copies()] == [None, None]
    shelf.place.delete([f"wal/{SEGMENTS[1]}"])
    assert [shelf.gap_after(one) for one in shelf.copies()] == [SEGMENTS[1], None]
    shelf.place.delete([f"base/{one.name}.json" for one in shelf.copies()])
    assert refused(lambda: shelf.copy_for(None)) == "no_backup", "a tar without its manifest is no copy"


def test_what_was_changed_is_not_restored(shelf: Shelf, tmp_path: Path) -> None:
    """Another tar, one that writes elsewhere, a manifest of another copy or with a name that we do not know."""
    newest = shelf.copies()[-1]
    name, manifest = newest.tar, newest.json

    def put(where: str, content: bytes) -> None:
        shelf.place.delete([where])
        shelf.place.create(where, content)

    content, _ = shelf.place.read(name, 1 << 30)
    put(name, content[:-20_000])
    assert refused(lambda: fetched(shelf, tmp_path / "one")) == "backup_unreadable"
    put(name, b"x" + content[1:])
    assert refused(lambda: fetched(shelf, tmp_path / "two")) == "backup_unreadable"
    evil = io.BytesIO()
    with tarfile.open(fileobj=evil, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("../escaped"), io.BytesIO(b""))
    put(name, evil.getvalue())
    assert refused(lambda: fetched(shelf, tmp_path / "three")) == "backup_unreadable"
    assert not list(tmp_path.rglob("escaped"))
    assert not [base for number in ("one", "two", "three") for base in BackupFolder(tmp_path / number, "set-1").bases()]
    put(name, content)
    standing, _ = shelf.place.read(manifest, 1 << 20)
    for changed in (
        standing.replace(b'"format"', b'"farmat"'),
        standing.replace(b"{", b'{"sparse": true,', 1),
        standing.replace(newest.name.encode(), b"20261123T101500Z"),
        b"no JSON",
    ):
        put(manifest, changed)
        assert refused(shelf.copies) == "backup_unreadable"
    put(manifest, Copy(**{**copied(newest), "system_identifier": "8"}).encode())
    assert refused(lambda: fetched(shelf, tmp_path / "four")) == "backup_of_another"


def copied(one: Copy) -> dict:
    return {name: getattr(one, name) for name in one.__struct_fields__}


def test_a_copy_that_is_half_up_is_none(
    shelf: Shelf, front: FaultyFront, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused at its tar or at its manifest, a copy does not count, and nothing of the others has changed."""
    monkeypatch.setattr(bucket_module, "RETRIES", 0)
    base = copy_in(tmp_path / "set-1", "20261123T101500Z", SEGMENTS[5])
    for end in (".tar", ".json"):
        front.breaks = lambda asked, end=end: (
            Answer(403, "AccessDenied") if asked.method == "PUT" and asked.path.endswith(end) else None
        )
        assert refused(lambda: shelf.put_copy(base, tmp_path)) == "bucket_denied"
        front.heal()
        assert [one.name for one in shelf.copies()] == ["20261121T101500Z", "20261122T101500Z"]
    assert not list(tmp_path.glob("*.tar"))
    shelf.put_copy(base, tmp_path)
    assert shelf.copy_for(None).name == "20261123T101500Z"


async def test_the_commands_name_what_goes(shelf: Shelf, kept: Kept) -> None:
    """Prune shows what would go and removes it when that is said; list names copies and their gaps."""
    place = str(shelf.place).removesuffix("/set-1")
    plan = await kept.json("backup", "prune", "set-1", "--folder", place, "--keep", "1")
    assert (plan["bases"], plan["segments"], plan["removed"]) == (
        [f"{place}/set-1/{shelf.copies()[0].tar}"],
        3,
        False,
    )
    assert len(shelf.copies()) == 2
    kept.change(backups=place)
    done = await kept.json("backup", "prune", "set-1", "--keep", "1", "--yes")
    assert (done["removed"], done["kept"]) == (True, 1)
    assert [one.name for one in shelf.copies()] == ["20261122T101500Z"]
    assert [one.name.removeprefix("wal/") for one in shelf.log()] == SEGMENTS[3:]
    ran = await kept.run("backup", "list", "set-1", "--folder", "s3://no-such-bucket/x")
    assert ran.exit_code == 1
    assert "there is no bucket no-such-bucket" in ran.output + str(ran.exception)


async def test_what_is_past_its_rule_goes(shelf: Shelf, bucket: Bucket, tmp_path: Path) -> None:
    """The newest copy and the log since stay; a look changes nothing, and what goes is on record before."""
    kind = CopiesInBucket(bucket, "set-1", 1)
    (seen,) = await kinds.show([kind])
    assert (seen.items, seen.past, seen.where) == (2, 4, str(shelf.place))
    assert seen.bytes > seen.past_bytes > 0
    assert len(shelf.copies()) == 2
    (gone,) = await kinds.apply([kind], tmp_path, "otto")
    assert (gone.past, gone.code) == (4, "")
    assert [one.name for one in shelf.copies()] == ["20261122T101500Z"]
    assert [one.name.removeprefix("wal/") for one in shelf.log()] == SEGMENTS[3:]
    assert shelf.gap_after(shelf.copies()[0]) is None
    (line,) = (tmp_path / f"retention-{datetime.now(UTC):%Y}.jsonl").read_text().splitlines()
    assert json.loads(line)["names"] == ["20261121T101500Z", *(f"wal/{one}" for one in SEGMENTS[:3])]
    assert [one.past for one in await kinds.apply([kind], tmp_path, "otto")] == [0]


async def test_what_a_killed_prune_has_left_goes_with_the_next(shelf: Shelf, bucket: Bucket) -> None:
    """A copy's file without a manifest that is older than what is kept; a newer one may be on its way up."""
    old, new = shelf.copies()
    shelf.place.delete([old.json])
    shelf.place.create("base/20261129T101500Z.tar", b"half")
    kind = CopiesInBucket(bucket, "set-1", 1)
    held = await kind.look()
    assert [one for one in held.names if "base" in one] == [old.tar]
    await kind.remove(held)
    assert sorted(one.name for one in shelf.place.listed("base")) == [
        new.tar, new.json, "base/20261129T101500Z.tar",
    ]  # fmt: skip


def test_two_copies_of_one_second_do_not_meet(shelf: Shelf, tmp_path: Path) -> None:
    """The second gets a name of its own and takes nothing from the first; the same may be put again after a kill."""
    before = shelf.copies()
    mine = copy_in(tmp_path / "other" / "set-1", before[-1].name, SEGMENTS[3])
    with pytest.raises(Refused) as raised:
        shelf.put_copy(mine, tmp_path)
    assert raised.value.code == "object_exists"
    assert shelf.copies() == before
    renamed = BackupFolder(tmp_path / "other", "set-1").rename_free(mine, shelf.names())
    assert shelf.put_copy(renamed, tmp_path) in shelf.copies()
    shelf.place.delete([shelf.copies()[-1].json])
    assert fetched(shelf, tmp_path / "back").bases()[-1].path.name == before[-1].name
    again = copy_in(tmp_path / "third" / "set-1", "20261123T101500Z", SEGMENTS[4])
    assert shelf.put_copy(again, tmp_path) == shelf.put_copy(again, tmp_path)


@pytest.mark.parametrize("other", ["../out", "a" * 300, "global"])
def test_a_tar_that_cannot_be_written_is_told(shelf: Shelf, tmp_path: Path, other: str) -> None:
    """A name out of the folder, one that no disk takes, a file where a folder is: no traceback, and no copy."""
    newest, content = shelf.copies()[-1], io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as made:
        for name in ("global/pg_control", other):
            made.addfile(tarfile.TarInfo(name))
    shelf.place.delete([newest.tar])
    shelf.place.create(newest.tar, content.getvalue())
    assert refused(lambda: fetched(shelf, tmp_path / "back")) == "backup_unreadable"


class Killed(BaseException):
    """The process ends here."""


async def nothing_to_check(*_: object) -> str:
    """In the place of a look at the server: the cluster of which `copy_in` makes copies."""
    return "7"


def not_put_yet(bucket: Bucket, work: Path, monkeypatch: pytest.MonkeyPatch) -> RemoteBackups:
    """Backups whose server answers nothing but its identifier: each `take` fails once the older copies are put."""
    monkeypatch.setattr(RemoteBackups, "_check", nothing_to_check)
    there = Source("set-1", "postgresql://x@127.0.0.1:1/x", {})
    return RemoteBackups(lambda: there, "set-1", bucket, work, print)


@pytest.mark.parametrize("first", ["base", "global"])
async def test_a_copy_killed_while_it_is_removed_is_no_copy(
    bucket: Bucket, front: FaultyFront, server_folder: Path, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    """What is left of one that was put is not put once more, whichever part went first; the next take removes it."""
    backups = not_put_yet(bucket, server_folder / "work", monkeypatch)
    put = copy_in(backups.folder.home, "20261121T101500Z", SEGMENTS[0])
    (put.path / "base").mkdir()
    removed = shutil.rmtree

    def killed(path: Path) -> None:
        removed(Path(path) / first)
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", killed)
        with pytest.raises(Killed):
            backups._put_copy(put, "7")
    assert backups.folder.bases() == []
    assert list(backups.folder.base.iterdir())
    with pytest.raises(Unavailable):
        await backups.take()
    assert list(backups.folder.base.iterdir()) == []
    assert [one.name for one in backups.shelf.copies()] == [put.path.name]
    assert front.seen


async def test_a_copy_of_another_cluster_is_not_put(
    bucket: Bucket, front: FaultyFront, server_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that an earlier cluster has left in the work folder is named and stays there."""
    backups = not_put_yet(bucket, server_folder / "work", monkeypatch)
    left = copy_in(backups.folder.home, "20261121T101500Z", SEGMENTS[0])
    (left.path / "global" / "pg_control").write_bytes((8).to_bytes(8, "little"))
    with pytest.raises(Refused, match="a copy of the cluster 8, the server is 7; it was not put") as raised:
        await backups.take()
    assert raised.value.code == "backup_of_another"
    assert backups.folder.bases() == [left]
    assert backups.shelf.copies() == []
    assert front.seen


async def test_one_take_at_a_time(bucket: Bucket, server_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until a copy is put, no other call takes one here: the tar that goes up is the one that the manifest names."""
    monkeypatch.setattr(RemoteBackups, "_check", nothing_to_check)
    there = Source("set-1", "postgresql://x@127.0.0.1:1/x", {})
    backups = RemoteBackups(lambda: there, "set-1", bucket, server_folder / "work", print)
    Backups(there, server_folder / "work").prepare()
    with (
        hold_lock(backups.folder.home / "put.lock", lambda _: Refused("held", "")),
        pytest.raises(Refused, match="is taking a base copy") as raised,
    ):
        await backups.take()
    assert raised.value.code == "backup_runs"


async def test_what_is_received_and_not_put_is_behind(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A receiver whose bucket takes nothing any more keeps no log: with its machine it would be lost."""

    async def received_all(_dsn: str, _newest: str | None) -> LogStatus:
        return LogStatus(LogState.KEPT, 0)

    monkeypatch.setattr(remote_module, "status_of", received_all)
    backups = RemoteBackups(lambda: Source("set-1", "", {}), "set-1", bucket, tmp_path, print)
    backups.folder.wal.mkdir(parents=True)
    segments = [f"0000000100000000{number:08X}" for number in range(1, UNPUT_SEGMENTS + 2)]
    for name in segments[:-1]:
        (backups.folder.wal / name).touch()
    assert (await backups.status()).state is LogState.KEPT
    (backups.folder.wal / segments[-1]).touch()
    assert (await backups.status()).state is LogState.BEHIND
    backups.shelf.put_segment(backups.folder.wal / segments[0])
    assert (await backups.status()).state is LogState.KEPT


async def test_what_a_killed_restore_has_fetched_goes(bucket: Bucket, tmp_path: Path) -> None:
    """The next restore removes it, but not that of one that still runs."""
    work = tmp_path / "work"
    backups = RemoteBackups(lambda: Source("set-1", "postgresql://x@127.0.0.1:1/x", {}), "set-1", bucket, work, print)
    killed, runs = work / "restoring-killed", work / "restoring-runs"
    for one in (killed, runs):
        one.mkdir(parents=True)
        (one / "restore.lock").touch()
    with hold_lock(runs / "restore.lock", lambda _: Refused("held", "")):
        backups._clear()
    assert (killed.exists(), runs.exists()) == (False, True)


def test_what_is_not_called_as_a_copy_is_not_ours(shelf: Shelf) -> None:
    """Somebody's note beside the copies changes nothing; something that is called as a copy and is none is told."""
    shelf.place.create("base/readme.json", b"{}")
    assert len(shelf.copies()) == 2
    shelf.place.create("base/20261123T101500Z.json", b'{"format": 2}')
    with pytest.raises(Refused, match="move it aside") as raised:
        shelf.copies()
    assert raised.value.code == "backup_unreadable"


async def test_retention_shows_what_is_in_a_bucket(
    kept: Kept, shelf: Shelf, bucket: Bucket, front: FaultyFront
) -> None:
    """Archives and backups of an installation, their number and bytes; a place that is not there has its code."""
    assert shelf.copies()
    await kept.json("archive", "copy", str(bucket))
    kept.change(archive=str(bucket), backups=str(bucket))
    found = {one["kind"]: one for one in (await kept.json("retention", "show"))["kinds"]}
    assert found["archive"]["items"] == len(store.archived(bucket))
    assert 0 < found["archive"]["bytes"] < sum(one.size for one in bucket.listed())
    assert (found["backups of set-1"]["items"], found["backups of set-1"]["code"]) == (2, None)
    kept.change(backups="")
    found = {one["kind"]: one for one in (await kept.json("retention", "show"))["kinds"]}
    assert (found["backups"]["items"], found["backups"]["code"]) == (0, None)
    assert "none are named" in found["backups"]["rule"]
    kept.change(backups="s3://no-such-bucket/x")
    found = {one["kind"]: one for one in (await kept.json("retention", "show", code=1))["kinds"]}
    assert found["backups of set-1"]["code"] == "bucket_missing"
    assert front.seen
