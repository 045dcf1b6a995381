"""What a folder of backups tells: holes in its log, and what of it holds nothing yet."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from backup.folder import SEGMENT_BYTES, BackupFolder, Base, first_gap


def segment(timeline: int, number: int) -> str:
    """The name of a segment in the first file of a log."""
    return f"{timeline:08X}00000000{number:08X}"


@pytest.mark.parametrize(
    ("kept", "missing"),
    [
        ([(1, 1), (1, 2), (1, 3)], None),
        ([(1, 1), (1, 3)], (1, 2)),
        ([(1, 2), (1, 3)], (1, 1)),
        ([(1, 1), (1, 2), (2, 2), (2, 3)], None),
        ([(1, 1), (1, 2), (2, 3)], None),
        ([(1, 1), (1, 2), (2, 9)], (2, 3)),
        ([(1, 1), (1, 2), (2, 2), (2, 4)], (2, 3)),
    ],
)
def test_the_first_hole_is_found(kept: list[tuple[int, int]], missing: tuple[int, int] | None) -> None:
    """Also where a promotion has begun a timeline: in the segment that the one before it has, or in the next."""
    found = first_gap([segment(*one) for one in kept], segment(1, 1))
    assert found == (None if missing is None else segment(*missing))


def test_a_partial_segment_that_is_not_of_full_size_is_none(tmp_path: Path) -> None:
    """pg_receivewal was killed while it filled it up: it neither counts as kept nor as the newest."""
    folder = BackupFolder(tmp_path, "set-1")
    folder.wal.mkdir(parents=True)
    (folder.wal / segment(1, 1)).write_bytes(b"")
    partial = folder.wal / f"{segment(1, 2)}.partial"
    partial.write_bytes(bytes(4096))
    assert folder.newest() == segment(1, 1)
    with partial.open("r+b") as file:
        file.truncate(SEGMENT_BYTES)
    assert folder.newest() == segment(1, 2)


@pytest.mark.parametrize("lacks", ["backup_label", "backup_manifest", "global/pg_control"])
def test_a_copy_that_lacks_a_part_is_none(tmp_path: Path, lacks: str) -> None:
    """Whatever was half removed, or half brought here by hand, is not counted as a copy."""
    folder = BackupFolder(tmp_path, "set-1")
    home = folder.base / "20261127T101500Z"
    (home / "global").mkdir(parents=True)
    (home / "global" / "pg_control").touch()
    (home / "backup_manifest").touch()
    (home / "backup_label").write_text(f"START WAL LOCATION: 0/1000028 (file {segment(1, 1)})\n")
    assert [one.path for one in folder.bases()] == [home]
    (home / lacks).unlink()
    assert folder.bases() == []


def test_a_copy_takes_the_next_second_that_is_free(tmp_path: Path) -> None:
    """Where another machine's copy has its name; one that is free is kept."""
    folder = BackupFolder(tmp_path, "set-1")
    name = "20261127T101500Z"
    path = folder.base / name
    path.mkdir(parents=True)
    base = Base(path, datetime(2026, 11, 27, 10, 15, tzinfo=UTC), segment(1, 1))
    assert folder.rename_free(base, set()) == base
    named = folder.rename_free(base, {name, "20261127T101501Z"})
    assert (named.path.name, named.path.is_dir(), path.exists()) == ("20261127T101502Z", True, False)
    assert named.taken_at == datetime(2026, 11, 27, 10, 15, 2, tzinfo=UTC)
