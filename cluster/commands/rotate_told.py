"""What `hongbao rotate` tells, as builtins for JSON and for the tables."""

from collections.abc import Collection, Coroutine
from datetime import date
from typing import Any

from envelope.errors import HongbaoError
from rotation.limits import SHOWN
from rotation.steps import DayUnproven, Result
from rotation.survey import Survey


async def told_of(name: str, day: date, work: Coroutine[Any, Any, Result]) -> dict[str, Any]:
    """Await the work on one day and tell what became of it; an error made on purpose becomes part of it."""
    told: dict[str, Any] = {"set": name, "date": day.isoformat(), "states": {}, "seconds": {}, "error": None}
    try:
        result = await work
    except HongbaoError as error:
        told["error"] = {"code": error.code, "detail": error.detail}
        if isinstance(error, DayUnproven):
            told["error"]["in_the_way"] = error.count
            told["error"]["obstacles"] = [vars(one) for one in error.obstacles[:SHOWN]]
    else:
        told["states"] = {f"db_{xx:02d}": state.value for xx, state in sorted(result.states.items())}
        told["seconds"] = result.seconds
    return told


def told_of_failure(name: str, error: HongbaoError) -> dict[str, Any]:
    """Tell that a SET as a whole could not be asked."""
    failed = {"code": error.code, "detail": error.detail}
    return {"set": name, "date": None, "states": {}, "seconds": {}, "error": failed}


def without_strangers(done: Collection[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out the SETs that had no part in a date of which another SET knows: nothing was to be done there."""
    known = {one["date"] for one in done if _code(one) != "day_unknown"}
    return [one for one in done if _code(one) != "day_unknown" or one["date"] not in known]


def _code(told: dict[str, Any]) -> str:
    return str(told["error"]["code"]) if told["error"] else ""


def told_of_survey(found: Survey, days: Collection[date]) -> dict[str, Any]:
    """Tell what stands in one SET: all days, or those given."""
    return {
        "set": found.name,
        "error": None,
        "days_ahead": found.ahead,
        "alarm": found.alarm.value,
        "days": [
            {
                "date": one.facts.day.isoformat(),
                "state": one.facts.state.value,
                "databases": {f"db_{xx:02d}": state.value for xx, state in sorted(one.facts.states.items())},
                "action": one.action.value,
                "why": one.why,
                "names_needed_from": one.due_by.isoformat(),
                "claims_about": one.facts.rows,
                "bytes": one.facts.bytes,
                "obstacles": [vars(obstacle) for obstacle in one.obstacles],
            }
            for one in found.days
            if not days or one.facts.day in days
        ],
        "coming": [
            {
                "date": one.day.isoformat(),
                "stands": one.stands,
                "occupied_by": one.occupied_by and one.occupied_by.isoformat(),
            }
            for one in found.coming
        ],
    }
