"""The commands on an installation whose archive is in a bucket, and an archive that moves there from a folder."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from archive import store
from archive.bucket import layout
from archive.place import Archive
from installation import data_folder
from installation.inventory import file as inventory_file
from objectstore.bucket import Bucket
from tests.integration.archive.fixtures import DAY, KEY
from tests.integration.archive.test_commands import NEXT, Kept, kept
from tests.integration.objects.faulty_front import FaultyFront
from tests.integration.objects.fixtures import bucket, front

__all__ = ["bucket", "front", "kept"]
EVERY = [(DAY, 0), (DAY, 1), (NEXT, 0), (NEXT, 1)]


def lies_in(kept: Kept, bucket: Bucket) -> None:
    """Have the installation name the bucket."""
    kept.change(archive=str(bucket))


@pytest.mark.long
async def test_an_archive_moves_into_a_bucket_and_back(
    kept: Kept, bucket: Bucket, front: FaultyFront, tmp_path: Path
) -> None:
    """Copied, every command says of it what it said of the folder; copied again nothing is; copied back it is equal."""
    words: Any = [("archive", "list"), ("archive", "verify"), ("query", "SELECT count(*), sum(amount_fen) FROM claim")]
    before = [await kept.json(*one) for one in words]
    told = await kept.json("archive", "copy", str(bucket))
    assert [one["new"] for one in told["archives"]] == [True] * 4
    assert store.archived(bucket) == EVERY
    told = await kept.json("archive", "copy", str(bucket))
    assert [one["new"] for one in told["archives"]] == [False] * 4
    lies_in(kept, bucket)
    assert kept.inventory.archive == str(bucket)
    assert [await kept.json(*one) for one in words] == before
    day = f"SELECT count(*) AS n FROM envelope WHERE day = DATE '{DAY}' AND xx = 1"
    front.seen.clear()
    assert (await kept.json("query", day))["rows"][0][0] > 0
    read = [one.path for one in front.seen if one.method == "GET" and "/claim/" in one.path]
    assert len(read) <= 1, "of what was not asked for, one footer, for the columns of the view"
    assert (await kept.json("archive", "restore", str(DAY), "db_01"))["schema"] == "restored_01_20261103"
    await kept.json("archive", "restore", str(DAY), "db_01", "--remove")
    back = tmp_path / "back"
    assert (await kept.json("archive", "copy", str(back)))["copied"]
    for path in kept.archive.folder.rglob("*.*"):
        if path.is_file():
            assert (back / path.relative_to(kept.archive.folder)).read_bytes() == path.read_bytes()


async def test_a_writing_that_no_register_names_is_told(kept: Kept, bucket: Bucket) -> None:
    """Beside the one that is named it harms nothing, but has names: its object is told to people."""
    await kept.json("archive", "copy", str(bucket))
    lies_in(kept, bucket)
    ran = await kept.run("archive", "verify")
    assert (ran.exit_code, ran.stderr.count("no register")) == (0, 0)
    name = layout.manifest_name(0, DAY, "e" * 64)
    bucket.create(name, b"theirs")
    ran = await kept.run("archive", "verify")
    assert (ran.exit_code, ran.stderr.count("no register")) == (0, 1)
    assert f"{bucket}/{name}: no register here names it" in ran.stderr


async def test_what_is_missing_in_a_bucket_is_named(kept: Kept, bucket: Bucket, front: FaultyFront) -> None:
    """A file and a manifest that are gone, and a bucket that does not let us read: each has its code in its row."""
    await kept.json("archive", "copy", str(bucket))
    lies_in(kept, bucket)
    files = [one.name for one in bucket.listed() if f"day={DAY}/xx=00" in one.name and "claim" in one.name]
    bucket.delete([*files, *(one.name for one in bucket.listed(f"manifest/{NEXT}/db_01"))])
    told = await kept.json("archive", "verify", code=1)
    assert [one["code"] for one in told["archives"]] == ["archive_missing", None, None, "archive_missing"]
    ran = await kept.run("query", "SELECT count(*) FROM claim", "--json")
    assert ran.exit_code == 1
    assert ran.output.count("left out:") == 2
    front.always("GET", 403, "AccessDenied")
    ran = await kept.run("archive", "verify")
    assert ran.exit_code == 1
    assert "the store does not let us" in str(ran.output) + str(ran.exception)


def test_a_folder_of_data_may_name_a_bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """HONGBAO_ARCHIVE and the installation file keep an address as it is written."""
    monkeypatch.setenv("HONGBAO_ARCHIVE", "s3://some-bucket/archive")
    folder = data_folder.locate(tmp_path)
    assert folder.archive_place == "s3://some-bucket/archive"
    assert folder.archive == tmp_path / "archive"
    assert inventory_file._absolute("s3://some-bucket/archive", tmp_path) == "s3://some-bucket/archive"


async def test_a_key_that_differs_believes_nothing(kept: Kept, bucket: Bucket, front: FaultyFront) -> None:
    """Signed with another key, an archive in a bucket is forged."""
    await kept.json("archive", "copy", str(bucket))
    other = Archive(bucket, KEY + b"!")
    with pytest.raises(Exception, match="archive_forged"):
        await asyncio.to_thread(store.opened, other, xx=0, day=DAY)
    assert front.seen
