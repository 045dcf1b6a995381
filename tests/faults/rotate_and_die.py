"""A process of its own that rotates (or drops) a day and ends, without a goodbye, at a crash point.

Arguments as JSON: target DSNs, databases, folder, day, today, the point ("": go to the end), whether to drop.
"""

import asyncio
import json
import os
import sys
import time
from datetime import UTC, date, datetime
from pathlib import Path

from archive.keeper import Keeper
from archive.place import Archive
from rotation import crash
from rotation.drop import drop_day
from rotation.register import Operator
from rotation.steps import Rotation
from rotation.target import RotationTarget
from runtime.clock import ManualClock
from tests.integration.rotation.fixtures import ARCHIVE_KEY

REACHED = 9


async def main(told: dict) -> None:
    day, today = date.fromisoformat(told["day"]), date.fromisoformat(told["today"])
    target = RotationTarget("set-1", told["dsn"], told["wallet_dsn"], lambda _: told["databases"])
    clock = ManualClock(datetime(today.year, today.month, today.day, tzinfo=UTC))
    rotation = Rotation(target, clock, Keeper(Archive(Path(told["folder"]), ARCHIVE_KEY)))
    by = Operator("killed", "to be killed")

    passed: list[tuple[str, float]] = []

    def die(point: crash.Point) -> None:
        passed.append((point.value, time.monotonic()))
        if point == told["point"]:
            os._exit(REACHED)

    crash.arm(die)
    if told.get("drop"):
        await drop_day(rotation, day, today, by, retention_days=0)
    else:
        seconds = (await rotation.run(day, today, by)).seconds
        sys.stdout.write(json.dumps({"seconds": seconds, "passed": passed}))


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
