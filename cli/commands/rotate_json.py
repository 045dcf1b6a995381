"""What `hongbao rotate` reports, as builtins: printed as JSON, or by `rotate_text` as tables."""

from collections.abc import Collection, Coroutine
from datetime import date
from typing import Any

from days.limits import SHOWN
from errors import HongbaoError
from rotation.steps import DayUnproven, Result
from rotation.survey import Survey
from sharding.slots import database_name


async def day_as_json(name: str, day: date, work: Coroutine[Any, Any, Result]) -> dict[str, Any]:
    """Await the work on one day; returns its outcome, an error on purpose included."""
    outcome: dict[str, Any] = {"set": name, "date": day.isoformat(), "states": {}, "seconds": {}, "error": None}
    try:
        result = await work
    except HongbaoError as error:
        outcome["error"] = {"code": error.code, "detail": error.detail}
        if isinstance(error, DayUnproven):
            outcome["error"]["in_the_way"] = error.count
            outcome["error"]["obstacles"] = [vars(one) for one in error.obstacles[:SHOWN]]
    else:
        outcome["states"] = {database_name(xx): state.value for xx, state in sorted(result.states.items())}
        outcome["seconds"] = result.seconds
    return outcome


def failure_as_json(name: str, error: HongbaoError) -> dict[str, Any]:
    """Return the outcome of a SET that does not answer."""
    failed = {"code": error.code, "detail": error.detail}
    return {"set": name, "date": None, "states": {}, "seconds": {}, "error": failed}


def without_uninvolved_sets(done: Collection[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out the `day_unknown` of a SET if another SET knows that date: this SET had nothing to do."""
    known = {one["date"] for one in done if _code(one) != "day_unknown"}
    return [one for one in done if _code(one) != "day_unknown" or one["date"] not in known]


def _code(outcome: dict[str, Any]) -> str:
    return str(outcome["error"]["code"]) if outcome["error"] else ""


def survey_as_json(found: Survey, days: Collection[date]) -> dict[str, Any]:
    """Return one SET's days: all, or those in `days`."""
    return {
        "set": found.name,
        "error": None,
        "days_ahead": found.ahead,
        "alarm": found.alarm.value,
        "days": [
            {
                "date": one.facts.day.isoformat(),
                "state": one.facts.state.value,
                "databases": {database_name(xx): state.value for xx, state in sorted(one.facts.states.items())},
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
