"""A move in a process of its own (`tests.forks`) that kills itself at a point."""

import asyncio
import json
import os
import sys
from datetime import date, datetime
from pathlib import Path
from typing import Any

from days import crash_points
from errors import HongbaoError
from moving.context import MoveContext
from moving.moves import Outcome, abort, move_by_time, move_live
from tests.clock import ManualClock

DIED = 41
REFUSED = 3


async def _move(context: MoveContext, job: dict[str, Any]) -> Outcome:
    if job["kind"] == "live":
        return await move_live(context, job["database"], job["to"])
    if job["kind"] == "abort":
        return await abort(context, job["database"])
    valid_from = date.fromisoformat(job["valid_from"]) if job.get("valid_from") else None
    return await move_by_time(context, job["database"], job["to"], valid_from)


def move_and_die(job: dict[str, Any]) -> None:
    """Move; the exit status is DIED at the point `die_at`, REFUSED with the error's sentence, or 0."""

    def die(point: str) -> None:
        if point == job["die_at"]:
            os._exit(DIED)

    clock = ManualClock(datetime.fromisoformat(job["now"]))
    context = MoveContext(Path(job["path"]), job["owners"], job["wallet"], clock, grace_s=0.3)
    try:
        with crash_points.armed(die):
            outcome = asyncio.run(_move(context, job))
        sys.stderr.write(json.dumps(outcome.as_json()) if job.get("tell") else "")
    except HongbaoError as error:
        sys.stderr.write(f"{error.code}: {error.detail}\n")
        sys.exit(REFUSED)
