"""Tables of coming days, and past days that should have left for the archive."""

import asyncio
from collections.abc import Iterator
from datetime import date

from doctor.finding import Finding, Level
from doctor.limits import UNROTATED_DAYS
from doctor.place import Place
from errors import Unavailable
from rotation.daemon import DaemonSettings
from rotation.plan import Action, Alarm, DayPlan, Rules
from rotation.set_access import SetAccess
from rotation.survey import Survey, survey
from rotation.wiring import rotations
from runtime.settings import load
from runtime.wording import counted


async def days(place: Place) -> list[Finding]:
    """Look at the days of each SET; one that does not answer is left to `parts`."""
    if place.access is None or place.topology is None:
        return []
    today, rules = place.access.today(), load(DaemonSettings).rules

    seen = await asyncio.gather(*(_survey(one.set_access, today, rules) for one in rotations(place.access)))
    answered = [one for one in seen if one is not None]
    found = [finding for one in answered for finding in judge(one, today, rules)]
    if answered and not found:
        least = min(one.ahead for one in answered)
        names = ", ".join(one.name for one in answered)
        what = f"{names}: tables for {counted(least, 'day')} after today; no day is late"
        found.append(Finding("days", Level.OK, names, what))
    return found


async def _survey(one: SetAccess, today: date, rules: Rules) -> Survey | None:
    try:
        return await survey(one, today, rules, with_obstacles=False)
    except Unavailable:
        return None


def judge(one: Survey, today: date, rules: Rules) -> Iterator[Finding]:
    """Say what is wrong with the days of one SET, on the business date `today`."""
    if one.alarm is not Alarm.OK:
        level = Level.WRONG if one.alarm is Alarm.PAGE else Level.SOON
        what = (
            f"{one.name} has no tables for today: its creates are refused."
            if one.ahead < 0
            else f"{one.name} has tables for {counted(one.ahead, 'day')} after today only; then creates are refused."
        )
        do = "./run rotate plan says what stands in the way; the log of the rotation has `day tables not made` and why."
        yield Finding("days", level, one.name, what, do)
    for coming in one.coming:
        if coming.occupied_by is not None:
            what = f"{one.name}: tables of {coming.day} cannot be made, those of {coming.occupied_by} have their names."
            do = f"./run rotate run --set {one.name} --date {coming.occupied_by}"
            yield Finding("days", Level.SOON, one.name, what, do)
    late = [day for day in one.days if _is_late(day, today, rules)]
    if late:
        first = late[0]
        level = Level.WRONG if first.due_by < today else Level.SOON
        what = (
            f"{one.name}: {counted(len(late), 'day')} should have left for the archive, the first is "
            f"{first.facts.day}; its table names are needed after {first.due_by}."
        )
        yield Finding("days", level, one.name, what, f"./run rotate plan --set {one.name}, then ./run rotate run")


def _is_late(day: DayPlan, today: date, rules: Rules) -> bool:
    waited = (today - day.facts.day).days - rules.grace_days
    return day.action in (Action.ROTATE, Action.RESUME) and waited > UNROTATED_DAYS
