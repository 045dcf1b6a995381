"""A move in a process of its own that kills itself at a point: `python -m …moving.move_and_die JOB`."""

import asyncio
import json
import os
import sys
from datetime import date, datetime
from pathlib import Path
from typing import Any

from envelope.errors import HongbaoError
from moving.ground import Ground
from moving.moves import Outcome, move_by_time, move_live
from runtime.clock import ManualClock

DIED = 41
REFUSED = 3


async def _move(ground: Ground, job: dict[str, Any]) -> Outcome:
    if job["kind"] == "live":
        return await move_live(ground, job["database"], job["to"])
    valid_from = date.fromisoformat(job["valid_from"]) if job.get("valid_from") else None
    return await move_by_time(ground, job["database"], job["to"], valid_from)


def main(job: dict[str, Any]) -> None:
    def die(point: str) -> None:
        if point == job["die_at"]:
            os._exit(DIED)

    clock = ManualClock(datetime.fromisoformat(job["now"]))
    ground = Ground(Path(job["path"]), job["owners"], job["wallet"], clock, point=die)
    try:
        outcome = asyncio.run(_move(ground, job))
        sys.stderr.write(json.dumps(outcome.as_json()) if job.get("tell") else "")
    except HongbaoError as error:
        sys.stderr.write(f"{error.code}: {error.detail}\n")
        sys.exit(REFUSED)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
