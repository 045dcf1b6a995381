"""The rotation is killed at every crash point there is, and run again: it finishes, and no row and no fen is lost."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import asyncpg
import pytest

from archive.place import Archive
from errors import Refused, Unavailable
from rotation import detach as detaching
from rotation.drop import drop_day
from rotation.lock import rotation_lock
from rotation.points import Point
from schema.day_tables import DayTables
from tests import forks
from tests.conftest import Databases
from tests.faults.rotate_and_die import REACHED, rotate_and_die
from tests.integration.rotation.fixtures import ARCHIVE_KEY, BY, DAY, NEXT, TODAY, XXS, OldDays, books, old_days_of

pytestmark = [pytest.mark.faults, pytest.mark.timeout(240), pytest.mark.long]

DROPPING = (Point.DROP_CHECKED, Point.DROPPING, Point.DROPPED_ONE)
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
async def old_days(databases: Databases, tmp_path: Path) -> AsyncIterator[OldDays]:
    """Days as elsewhere, with the archive that is used in earnest."""
    async with old_days_of(databases, tmp_path, books()) as one:
        one.real = Archive(tmp_path, ARCHIVE_KEY)
        yield one


async def killed_at(old_days: OldDays, point: Point, *, drop: bool = False) -> int:
    told = {
        "dsn": old_days.set_access.dsn, "wallet_dsn": old_days.set_access.wallet_dsn,
        "folder": str(old_days.archive.folder),
        "day": f"{DAY}", "today": f"{TODAY}", "point": point.value, "drop": drop,
        "databases": XXS,
    }  # fmt: skip
    return (await forks.run(rotate_and_die, told, timeout_s=60)).status


async def everything(old_days: OldDays) -> list[tuple]:
    """All rows of the day and of the next, wherever they stand now."""
    found = []
    for kind in ("envelope", "claim", "guest"):
        found += [tuple(row) for row in await old_days.rows(f"SELECT * FROM {kind}_{DAY:%Y%m%d} ORDER BY 1, 4")]
        found += [tuple(row) for row in await old_days.rows(f"SELECT * FROM {kind}_{NEXT:%Y%m%d} ORDER BY 1, 4")]
    return found


@pytest.mark.parametrize("point", [one for one in Point if one not in (*DROPPING, Point.DETACH_PENDING)])
async def test_killed_at_every_point_the_next_run_finishes(old_days: OldDays, point: Point) -> None:
    """Whatever stood half done, the next run ends with every database verified, every row there and a clean audit."""
    rows = await everything(old_days)
    assert await killed_at(old_days, point) == REACHED
    assert await old_days.violations() == []
    assert await old_days.run() == {0: "verified", 1: "verified"}
    assert await everything(old_days) == rows
    assert await old_days.violations() == []
    # What a killed run has announced is announced again.
    lines = [one for one in await old_days.lines() if one != "publishing"]
    assert lines == sorted(["closed", "detached", "exported", "verified"] * 2)
    await drop_day(old_days.rotation, DAY, TODAY, BY, retention_days=0)
    assert await old_days.states() == {0: "dropped", 1: "dropped"}
    assert await nothing_left(old_days)
    assert await old_days.violations() == []


async def nothing_left(old_days: OldDays) -> bool:
    tables = await old_days.scalar("SELECT count(*) FROM pg_class WHERE relname LIKE '%' || $1", f"{DAY:%Y%m%d}")
    schemas = await old_days.scalar("SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'cold%'")
    return tables == schemas == 0


@pytest.mark.parametrize("point", DROPPING)
async def test_killed_while_dropping_the_next_run_drops_the_rest(old_days: OldDays, point: Point) -> None:
    """Each database is dropped whole, with its entry and its line, or not at all."""
    await old_days.run()
    assert await killed_at(old_days, point, drop=True) == REACHED
    await drop_day(old_days.rotation, DAY, TODAY, BY, retention_days=0)
    assert await old_days.states() == {0: "dropped", 1: "dropped"}
    assert (await old_days.lines()).count("dropped") == 2
    assert await nothing_left(old_days)
    assert await DayTables(old_days.set_dsn, XXS).ensure(NEXT, ahead_days=0) == []


async def test_killed_while_a_reader_keeps_the_detach_pending(old_days: OldDays) -> None:
    """A reader of the parents holds up the second phase; killed there, the next run finalizes once he has gone."""
    reader = await asyncpg.connect(old_days.set_dsn)
    transaction = reader.transaction()
    await transaction.start()
    await reader.fetch("SELECT count(*) FROM envelope")
    assert await killed_at(old_days, Point.DETACH_PENDING) == REACHED
    assert await old_days.scalar("SELECT count(*) FROM pg_inherits WHERE inhdetachpending") == 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(detaching, "LOCK_RETRY", replace(detaching.LOCK_RETRY, patience_s=0.6))
        with pytest.raises(Unavailable) as waits:
            await old_days.run()
    assert waits.value.code == "rotation_waits"
    assert f"process {reader.get_server_pid()} " in waits.value.detail
    assert await old_days.states() == {0: "closed", 1: "closed"}
    await transaction.rollback()
    await reader.close()
    assert await old_days.run() == {0: "verified", 1: "verified"}


async def test_a_pending_detach_of_another_day_is_finished_first(old_days: OldDays) -> None:
    """Postgres bears one pending detach a table: that of an interrupted run is finalized by whoever comes next."""
    reader = await asyncpg.connect(old_days.set_dsn)
    transaction = reader.transaction()
    await transaction.start()
    await reader.fetch("SELECT count(*) FROM envelope")
    assert await killed_at(old_days, Point.DETACH_PENDING) == REACHED
    await transaction.rollback()
    await old_days.rows("DELETE FROM due")
    await old_days.rows("DELETE FROM claim WHERE envelope_id >= $1", int(f"{NEXT:%y%m%d}") * 10**13)
    await old_days.rows("DELETE FROM envelope WHERE envelope_id >= $1", int(f"{NEXT:%y%m%d}") * 10**13)
    low, high = int(f"{NEXT:%y%m%d}") * 10**13, int(f"{NEXT:%y%m%d}") * 10**13 + 10**13
    await old_days.rows("DELETE FROM fund WHERE envelope_id >= $1", low, wallet=True)
    await old_days.rows(f"DELETE FROM transfer WHERE envelope_id BETWEEN {low} AND {high}", wallet=True)
    await old_days.rows(f"UPDATE account SET balance_fen = 0 WHERE name LIKE 'escrow:{NEXT:%y%m%d}%'", wallet=True)
    await reader.close()
    assert await old_days.run(NEXT) == {0: "verified", 1: "verified"}
    assert await old_days.run() == {0: "verified", 1: "verified"}


async def test_of_two_at_once_one_works_and_the_other_is_refused(old_days: OldDays) -> None:
    """The second hears rotation_busy and has changed nothing; neither does anything twice."""
    both = await asyncio.gather(old_days.run(), old_days.run(), return_exceptions=True)
    refused = [one for one in both if isinstance(one, Refused)]
    assert len(refused) <= 1
    assert all(one.code == "rotation_busy" for one in refused)
    assert await old_days.states() == {0: "verified", 1: "verified"}
    assert len(await old_days.lines()) == 10
    async with rotation_lock(old_days.set_access.dsn):
        with pytest.raises(Refused) as busy:
            await old_days.run()
    assert busy.value.code == "rotation_busy"


def test_the_points_are_in_the_code() -> None:
    """Every named point is passed somewhere, and none is passed that has no name."""
    sources = "".join(path.read_text() for path in (ROOT / "rotation").glob("*.py") if path.name != "points.py")
    assert {one.name for one in Point if f"Point.{one.name}" in sources} == {one.name for one in Point}
