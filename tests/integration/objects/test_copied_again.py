"""`archive copy` to a bucket, a user is forgotten, `archive copy` again, as docs/operations/archive.md has it."""

from pathlib import Path

import pytest

from archive import store
from archive.bucket import layout
from archive.copying import copy_archive
from archive.known import Known, known_of
from archive.place import Archive
from objectstore.bucket import Bucket
from runtime import postgres
from tests.integration.objects.copies import copied
from tests.integration.objects.fixtures import bucket, front
from tests.integration.rotation.fixtures import ARCHIVE_KEY, DAY
from tests.integration.users.fixtures import ALICE, AlicesPast, _holds, past_of_alice

__all__ = ["bucket", "front", "past_of_alice"]


async def copy(one: AlicesPast, target: Archive) -> list[bool]:
    """Copy every archive as the command does; returns which had to be."""
    named = {row["xx"]: row["manifest_sha256"] for row in await one.days.rows("SELECT * FROM day_register")}
    done = []
    async with postgres.connected(one.days.set_access.dsn) as connection:
        for day, xx in store.archived(one.installed.archive.folder):
            known = await known_of(connection, xx=xx, day=day)
            done.append(copy_archive(one.installed.archive, target, xx=xx, day=day, digest=named[xx], known=known))
    return done


@pytest.mark.parametrize("kind", ["bucket", "folder"])
async def test_the_former_writing_of_a_day_goes_with_the_second_copy(
    past_of_alice: AlicesPast, bucket: Bucket, tmp_path: Path, kind: str
) -> None:
    """No object has the name of who was forgotten, a day is counted once, and what is nobody's of ours stays."""
    one = past_of_alice
    await one.take_to("dropped")
    target = Archive(bucket if kind == "bucket" else tmp_path / "target", ARCHIVE_KEY)
    assert await copy(one, target) == [True, True]
    foreign = layout.manifest_name(0, DAY, "e" * 64)
    bucket.create(foreign, b"theirs")
    await one.forget()
    assert await copy(one, target) == [True, True]
    folder = copied(bucket, tmp_path / "seen") if kind == "bucket" else tmp_path / "target"
    assert [path for path in folder.rglob("*") if _holds(path, ALICE)] == []
    if kind == "bucket":
        assert len(list(bucket.listed("claim"))) == 2
        assert foreign in [held.name for held in bucket.listed("manifest")]
    assert await copy(one, target) == [False, False]


async def test_a_third_copy_removes_what_a_second_one_could_not(past_of_alice: AlicesPast, bucket: Bucket) -> None:
    """Also where nothing has to be copied any more: killed before the end, or copied by a release that left it."""
    one, target = past_of_alice, Archive(bucket, ARCHIVE_KEY)
    await one.take_to("dropped")
    await copy(one, target)
    await one.forget()
    for day, xx in store.archived(one.installed.archive.folder):
        copy_archive(one.installed.archive, target, xx=xx, day=day, known=Known())
    assert len(list(bucket.listed("claim"))) == 4
    assert await copy(one, target) == [False, False]
    assert len(list(bucket.listed("claim"))) == 2
