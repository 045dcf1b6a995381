"""Opens of other days while a day is taken out, a reader in the way on purpose: they go on, and how long they wait."""

import asyncio
import itertools
import json
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from schema import roles
from schema.day_tables import DayTables
from sharding.ids import business_date
from tests import forks
from tests.conftest import Databases
from tests.faults.rotate_and_die import rotate_and_die
from tests.integration.rotation.fixtures import Books
from tests.integration.setnode.fixtures import SMALL, XXS, Town, living_town

pytestmark = [pytest.mark.faults, pytest.mark.timeout(240), pytest.mark.long]

ROOT = Path(__file__).resolve().parents[2]
PEOPLE, SHARES = 16, 2_000
READER_S = 2.5
WARM_S = 3.0
ENVELOPES = 1_500


class Openers:
    """People who open envelopes of today one after the other, and note how long each open took."""

    def __init__(self, town: Town) -> None:
        self.town = town
        self.took: list[tuple[float, float]] = []
        self.results: set[str] = set()
        self._numbers = itertools.count()
        self._busy = True

    async def run(self) -> None:
        envelopes = [await self.town.create(SHARES, SHARES) for _ in range(PEOPLE)]
        await asyncio.gather(*(self._open_on(one) for one in envelopes))

    async def _open_on(self, envelope_id: int) -> None:
        for opened in itertools.count(1):
            if not self._busy:
                return
            if opened % SHARES == 0:
                envelope_id = await self.town.create(SHARES, SHARES)
            started = time.monotonic()
            answer = await self.town.open(envelope_id, f"u{next(self._numbers)}")
            self.took.append((started, (time.monotonic() - started) * 1000))
            self.results.add(answer["result"])

    def stop(self) -> None:
        self._busy = False

    def between(self, start: float, end: float) -> dict[str, float]:
        """Figures of the opens that were waiting at any moment from `start` to `end` (monotonic)."""
        took = sorted(ms for at, ms in self.took if at < end and at + ms / 1000 > start)
        if not took:
            return {"opens": 0}
        return {
            "opens": len(took), "p50_ms": round(took[len(took) // 2], 1),
            "p999_ms": round(took[min(len(took) - 1, len(took) * 999 // 1000)], 1), "max_ms": round(took[-1], 1),
        }  # fmt: skip


async def test_opens_of_other_days_go_on_while_a_day_is_taken_out(
    databases: Databases, memcached: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All opens succeed beside a rotation that a reader holds up; their stall is printed, step by step."""
    async with living_town(databases, memcached, tmp_path) as town:
        today = business_date(town.clock.now())
        day = today - timedelta(days=9)
        await DayTables(databases.dsn_as(town.set_dsn, roles.OWNER), XXS).ensure(day, ahead_days=0)
        books = Books()
        for number in range(ENVELOPES):
            books.add(day, slot=number % SMALL.slots)
        await books.write_set(town.set_dsn)
        await books.write_wallet(town.wallet_dsn)
        openers = Openers(town)
        running = asyncio.ensure_future(openers.run())
        await asyncio.sleep(WARM_S)
        quiet = time.monotonic()
        await asyncio.sleep(WARM_S)
        reader = await asyncpg.connect(town.set_dsn)
        transaction = reader.transaction()
        await transaction.start()
        await reader.fetch("SELECT count(*) FROM envelope")
        await reader.fetch("SELECT count(*) FROM claim")
        rotating = asyncio.ensure_future(rotate(town, databases, tmp_path, f"{day}", f"{today}"))
        held_until = time.monotonic() + 20
        while not await town.scalar("SELECT count(*) FROM pg_inherits WHERE inhdetachpending"):
            assert time.monotonic() < held_until, "no detach was held up by the reader"
            assert not rotating.done(), rotating.result()
            await asyncio.sleep(0.05)
        await asyncio.sleep(READER_S)
        assert not rotating.done()
        await transaction.rollback()
        await reader.close()
        done = await rotating
        openers.stop()
        await running
        await town.paid_out()
        states = await town.rows("SELECT state, count(*) FROM day_register GROUP BY 1")
        report = await town.audit()
    passed = {point: at for point, at in reversed(done["passed"])}  # noqa: C416 - the first time each was passed
    steps = {
        "alone": (quiet, passed["locked"] - 1.0),
        "proving": (passed["locked"], passed["proven"]),
        "fencing": (passed["proven"], passed["fenced"]),
        "proving again and closing": (passed["fenced"], passed["closed"]),
        "detaching, held up": (passed["closed"], passed["detached_all"]),
        "moving leaves": (passed["detached_all"], passed["export_written"]),
    }
    with capsys.disabled():
        sys.stdout.write(f"\nopens of other days, while rotating ({json.dumps(done['seconds'])} s):\n")
        for name, (start, end) in steps.items():
            sys.stdout.write(f"  {name:28} {end - start:5.2f} s  {json.dumps(openers.between(start, end))}\n")
    assert openers.results == {"opened"}
    assert [tuple(row) for row in states] == [("verified", len(XXS))]
    assert report.violations == []


async def rotate(town: Town, databases: Databases, folder: Path, day: str, today: str) -> dict[str, Any]:
    """Rotate in a process of its own, as an operator does; returns each step's seconds and when points were passed."""
    told = {
        "dsn": databases.dsn_as(town.set_dsn, roles.OWNER),
        "wallet_dsn": databases.dsn_as(town.wallet_dsn, roles.AUDIT),
        "folder": str(folder), "day": day, "today": today, "point": "", "databases": list(XXS),
    }  # fmt: skip
    done = await forks.run(rotate_and_die, told)
    assert done.status == 0, done.err[-2000:]
    return json.loads(done.out.splitlines()[-1])
