"""The service that makes day tables: no SET's failure hides another's, and nothing is left running behind it."""

import asyncio
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from errors import HongbaoError, Refused, Unavailable
from local.day_table_service import DayTableService, ahead_days_at_start
from runtime.clock import SystemClock
from schema.day_tables import AHEAD_DAYS, DayTables
from sharding.ids import BUSINESS_ZONE
from sharding.topology import ServerSpec, SetSpec, Topology, dump

SETS = ("set-1", "set-2", "set-3")


@pytest.fixture
def ahead(tmp_path: Path) -> tuple[DayTableService, list[str]]:
    sets = tuple(SetSpec(name, (ServerSpec(f"{name}-a", "http://127.0.0.1:1"),)) for name in SETS)
    dump(Topology(version=1, slots=100, sets=sets, wallet_url="http://127.0.0.1:1"), tmp_path / "t.json")
    said: list[str] = []
    dsns = {name: name for name in SETS}
    return DayTableService(tmp_path / "t.json", dsns, said.append, AHEAD_DAYS, SystemClock()), said


def failing(monkeypatch: pytest.MonkeyPatch, **errors: Exception) -> list[str]:
    """Let the makers of these SETs fail at once and the others finish later; returns who finished."""
    finished: list[str] = []

    async def ensure(self: DayTables, today: date, *, ahead_days: int, by_clock: bool) -> list[date]:
        if (error := errors.get(self.dsn.replace("-", "_"))) is not None:
            raise error
        for _ in range(5):
            await asyncio.sleep(0)
        finished.append(self.dsn)
        return [today]

    monkeypatch.setattr(DayTables, "ensure", ensure)
    return finished


occupied: Callable[[], Refused] = lambda: Refused("day_table_occupied", "set-1 has an old day")  # noqa: E731


async def test_a_failure_leaves_no_maker_behind(ahead: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where one SET fails the others are finished when the failure is raised."""
    finished = failing(monkeypatch, set_1=occupied())
    with pytest.raises(Refused, match="old day"):
        await ahead[0].make_today()
    assert finished == ["set-2", "set-3"]


async def test_a_lost_connection_is_told_as_a_sentence(ahead: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The operator reads what may be the matter, not the text of the driver's error."""
    failing(monkeypatch, set_1=asyncpg.InterfaceError("cannot call Transaction.__aexit__(): the connection is closed"))
    tables, said = ahead
    with pytest.raises(asyncpg.InterfaceError):
        await tables.make_today()
    lost = "Postgres closed the connection or does not answer; is its disk full? See ./run logs"
    assert said == [f"tables of set-1 are missing: {lost}"]


@pytest.mark.parametrize("worse", [Unavailable("day_tables_locked", "set-2 waits"), OSError("set-2 is gone")])
async def test_an_occupied_name_hides_nothing_worse(
    ahead: Any, monkeypatch: pytest.MonkeyPatch, worse: HongbaoError | OSError
) -> None:
    """A stack starts with an occupied name; a second SET's failure is raised before it, and both are reported."""
    failing(monkeypatch, set_1=occupied(), set_2=worse)
    tables, said = ahead
    with pytest.raises(type(worse), match="set-2"):
        await tables.make_today()
    assert ["set-1" in said[0], "set-2" in said[1], len(said)] == [True, True, 2]


@pytest.mark.parametrize(("at", "days"), [("15:49:00", 0), ("15:51:00", 1), ("15:59:59", 1), ("16:00:00", 0)])
def test_tomorrow_s_tables_stand_at_a_start_just_before_midnight(at: str, days: int) -> None:
    """16:00 UTC is midnight in Shanghai: a stack that starts seconds before it has the tables of the day to come."""
    assert ahead_days_at_start(datetime.fromisoformat(f"2026-11-26T{at}").replace(tzinfo=UTC), BUSINESS_ZONE) == days
