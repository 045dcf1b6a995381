"""Two installations that name the same archive place: staging made from production, a rehearsal of a restore."""

import random
import shutil
from pathlib import Path

import pytest

from archive import place
from archive.known import announce
from archive.place import Archive
from errors import Refused
from objectstore.bucket import Bucket
from rotation.drop import drop_day
from runtime import postgres
from tests.conftest import Databases
from tests.integration.objects.copies import copied
from tests.integration.objects.fixtures import bucket, front
from tests.integration.rotation.fixtures import ARCHIVE_KEY, BY, DAY, TODAY, Books, OldDays, old_days_of

__all__ = ["bucket", "front"]
OTHER_KEY = b"the key of another installation"


def made(seed: int) -> Books:
    one = Books(luck=random.Random(seed))
    for _ in range(20):
        one.add(DAY)
    return one


async def to_dropped(one: OldDays) -> None:
    await one.run_to("verified")
    await drop_day(one.rotation, DAY, TODAY, BY, retention_days=0)


def contents(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("key", [ARCHIVE_KEY, OTHER_KEY], ids=["same key", "another key"])
@pytest.mark.parametrize("seed", [1, 2], ids=["same rows", "other rows"])
async def test_another_installation_keeps_its_days(databases: Databases, tmp_path: Path, key: bytes, seed: int) -> None:
    """In a folder the second one is refused by name, again and again, and every file of the first stays as it was."""
    folder = tmp_path / "archive"
    async with (
        old_days_of(databases, tmp_path, made(1)) as production,
        old_days_of(databases, tmp_path, made(seed)) as other,
    ):
        production.real, other.real = Archive(folder, ARCHIVE_KEY), Archive(folder, key)
        other.clock.advance(minutes=1)  # another proof, and so another digest of the same rows
        await to_dropped(production)
        before = contents(folder)
        for _ in range(2):
            with pytest.raises(Refused, match="no register here has named") as refused:
                await other.run()
            assert refused.value.code == "archive_of_another"
        assert contents(folder) == before
        assert await production.violations() == []
        assert await other.states() == {0: "detached", 1: "detached"}


@pytest.mark.long
@pytest.mark.parametrize("key", [ARCHIVE_KEY, OTHER_KEY], ids=["same key", "another key"])
async def test_in_a_bucket_both_keep_their_days(
    databases: Databases, bucket: Bucket, tmp_path: Path, key: bytes
) -> None:
    """There archives stand side by side: the second one's go up, are verified, and none of the first one's goes."""
    async with (
        old_days_of(databases, tmp_path, made(1)) as production,
        old_days_of(databases, tmp_path, made(2)) as other,
    ):
        production.real, other.real = Archive(bucket, ARCHIVE_KEY), Archive(bucket, key)
        await to_dropped(production)
        before = contents(copied(bucket, tmp_path / "before"))
        await to_dropped(other)
        assert contents(copied(bucket, tmp_path / "after")).items() >= before.items()
        assert await production.violations() == []
        assert await other.violations() == []


async def test_what_a_killed_export_has_left_is_no_strangers(databases: Databases, tmp_path: Path) -> None:
    """Published, not registered, and another release writes another manifest: it was announced, so it is replaced."""
    folder = tmp_path / "archive"
    async with old_days_of(databases, tmp_path, made(1)) as one, old_days_of(databases, tmp_path, made(1)) as killed:
        one.real, killed.real = Archive(folder, ARCHIVE_KEY), Archive(folder, ARCHIVE_KEY)
        killed.clock.advance(minutes=1)
        await killed.run_to("exported")
        rows = await killed.rows("SELECT xx, manifest_sha256 FROM day_register")
        async with postgres.connected(one.set_access.dsn) as connection:
            for row in rows:
                await announce(connection, xx=row["xx"], day=DAY, digest=row["manifest_sha256"])
        assert await one.run() == {0: "verified", 1: "verified"}
        assert await one.violations() == []


async def test_a_stranger_in_the_place_of_a_damaged_one_stays(databases: Databases, tmp_path: Path) -> None:
    """A register names an archive of ours, and a whole one with other rows stands there: it is not written over."""
    folder, theirs = tmp_path / "archive", tmp_path / "theirs"
    async with old_days_of(databases, tmp_path, made(1)) as one, old_days_of(databases, tmp_path, made(2)) as other:
        one.real, other.real = Archive(folder, ARCHIVE_KEY), Archive(theirs, OTHER_KEY)
        await one.run()
        await other.run()
        where = place.folder_of(folder, xx=0, day=DAY)
        shutil.rmtree(where)
        shutil.copytree(place.folder_of(theirs, xx=0, day=DAY), where)
        before = contents(folder)
        with pytest.raises(Refused) as refused:
            await one.run()
        assert refused.value.code == "archive_of_another"
        assert contents(folder) == before


@pytest.mark.parametrize("where", ["folder", pytest.param("bucket", marks=pytest.mark.long)])
async def test_a_copy_with_another_key_keeps_what_its_register_names(
    databases: Databases, bucket: Bucket, tmp_path: Path, where: str
) -> None:
    """A copy of the databases names the archives of production, and cannot read them: it does not write them anew."""
    folder = bucket if where == "bucket" else tmp_path / "archive"

    def seen(name: str) -> dict[str, bytes]:
        return contents(copied(bucket, tmp_path / name) if where == "bucket" else tmp_path / "archive")

    async with old_days_of(databases, tmp_path, made(1)) as one:
        one.real = Archive(folder, ARCHIVE_KEY)
        await one.run()
        before = seen("before")
        one.real = Archive(folder, OTHER_KEY)
        with pytest.raises(Refused) as refused:
            await one.run()
        assert refused.value.code == "archive_of_another"
        assert seen("after") == before
