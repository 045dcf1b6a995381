"""A process of its own (`tests.forks`) that rotates or drops a day and ends, without a goodbye, at a crash point."""

import asyncio
import json
import os
import sys
import time
from datetime import UTC, date, datetime
from pathlib import Path

from archive.adapter import ArchiveAdapter
from archive.place import Archive
from days import crash_points
from rotation.drop import drop_day
from rotation.register import Operator
from rotation.set_access import SetAccess
from rotation.steps import Rotation
from tests.clock import ManualClock
from tests.integration.rotation.fixtures import ARCHIVE_KEY

REACHED = 9


def rotate_and_die(told: dict) -> None:
    """Rotate as `told`: the SET's DSNs, databases, folder, day, today, the point ("": to the end), whether to drop."""
    asyncio.run(_rotate(told))


async def _rotate(told: dict) -> None:
    day, today = date.fromisoformat(told["day"]), date.fromisoformat(told["today"])
    set_access = SetAccess("set-1", told["dsn"], told["wallet_dsn"], lambda _: told["databases"])
    clock = ManualClock(datetime(today.year, today.month, today.day, tzinfo=UTC))
    rotation = Rotation(set_access, clock, ArchiveAdapter(Archive(Path(told["folder"]), ARCHIVE_KEY)))
    by = Operator("killed", "to be killed")

    passed: list[tuple[str, float]] = []

    def die(point: str) -> None:
        passed.append((str(point), time.monotonic()))
        if point == told["point"]:
            os._exit(REACHED)

    with crash_points.armed(die):
        if told.get("drop"):
            await drop_day(rotation, day, today, by, retention_days=0)
        else:
            seconds = (await rotation.run(day, today, by)).seconds
            sys.stdout.write(json.dumps({"seconds": seconds, "passed": passed}))
