"""What the host took of the cores."""

from pathlib import Path

import pytest

from loadtest import cpu_steal
from loadtest.cpu_steal import CpuSteal

LINE = "cpu  {user} 0 100 500 10 0 5 {steal} 7 7\ncpu0 1 2 3 4 5 6 7 8 9 10\n"


def test_it_is_the_part_of_all_time_since_the_beginning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 400 hundredths that passed 100 were stolen; time of our own guests is not counted twice."""
    stat = tmp_path / "stat"
    monkeypatch.setattr(cpu_steal, "_STAT", stat)
    stat.write_text(LINE.format(user=1_000, steal=50), encoding="ascii")
    since = CpuSteal()
    assert since.part() == 0
    stat.write_text(LINE.format(user=1_300, steal=150), encoding="ascii")
    assert since.part() == 0.25


def test_this_machine_tells() -> None:
    """The kernel's own file is read."""
    assert 0 <= CpuSteal().part() <= 1
