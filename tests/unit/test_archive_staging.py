"""Two processes that write the archive of one day and database: one of them, never a mixture."""

from datetime import date
from pathlib import Path

import pytest

from archive import place
from errors import Refused

DAY = date(2026, 11, 21)


def names(root: Path) -> list[str]:
    return sorted(one.name for one in (root / str(DAY)).iterdir())


def test_one_writes_at_a_time(tmp_path: Path) -> None:
    """The second is told to wait and takes nothing away; another database of the day is another matter."""
    with place.staging(tmp_path, xx=1, day=DAY) as new:
        (new / "claim.parquet").write_text("half")
        with pytest.raises(Refused) as raised, place.staging(tmp_path, xx=1, day=DAY):
            pass
        assert raised.value.code == "archive_busy"
        assert (new / "claim.parquet").read_text() == "half"
        with place.staging(tmp_path, xx=2, day=DAY):
            pass
    assert names(tmp_path) == []
    with place.staging(tmp_path, xx=1, day=DAY) as new:
        assert list(new.iterdir()) == []


def test_what_a_killed_export_left_is_not_mixed_in(tmp_path: Path) -> None:
    """The next one begins with an empty folder."""
    left = tmp_path / str(DAY) / ".db_01.new"
    (left / ".spill").mkdir(parents=True)
    (left / "claim.parquet").write_text("half")
    with place.staging(tmp_path, xx=1, day=DAY) as new:
        assert list(new.iterdir()) == []


def test_who_has_published_takes_nothing_of_the_next(tmp_path: Path) -> None:
    """Once it is published the staging folder's name is free, and what another one writes there stays."""
    with place.staging(tmp_path, xx=1, day=DAY) as first:
        place.publish(first, b"one", tmp_path, xx=1, day=DAY)
        second = place.staging(tmp_path, xx=1, day=DAY)
        new = second.__enter__()
        (new / "claim.parquet").write_text("next")
    assert (new / "claim.parquet").read_text() == "next"
    place.publish(new, b"two", tmp_path, xx=1, day=DAY)
    second.__exit__(None, None, None)
    assert names(tmp_path) == ["db_01"]
    assert (tmp_path / str(DAY) / "db_01" / "manifest.json").read_bytes() == b"two"
