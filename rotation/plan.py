"""What rotation would do with each day, why, and by when it must be done: pure, from facts and a business date.

A leaf's name holds the day of the month, so a day must be gone before tables are made for the next date with the same
day of the month. Nothing here reads a clock: the business date comes in, in the topology's time zone.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from enum import StrEnum

from archive.states import State
from days.finality import Obstacle
from rotation.facts import DayFacts
from rotation.limits import GRACE_DAYS, MIN_AGE_DAYS, RETENTION_DAYS
from runtime.wording import counted
from schema.day_tables import AHEAD_DAYS, ALARM_DAYS, PAGE_DAYS, days_ahead

STILL_TO_COME = "it is still to come"
"""Why nothing would be done with a day after today."""


class Action(StrEnum):
    """What `rotate run`, or `rotate drop`, would do with a day now."""

    WAIT = "wait"
    ROTATE = "rotate"
    RESUME = "resume"
    KEEP = "keep"
    DROP = "drop"
    NOTHING = "nothing"


class Alarm(StrEnum):
    """How urgently tables must be made ahead."""

    OK = "ok"
    ALARM = "alarm"
    PAGE = "page"


@dataclass(frozen=True)
class Rules:
    """Ages in business days: from `grace_days` on a day is rotated, after `retention_days` it may be dropped."""

    grace_days: int = GRACE_DAYS
    retention_days: int = RETENTION_DAYS


@dataclass(frozen=True)
class DayPlan:
    """One day: what would be done, why, and the last date on which its names may still be taken (`due_by`)."""

    facts: DayFacts
    action: Action
    why: str
    due_by: date
    obstacles: Sequence[Obstacle] = field(default_factory=tuple)

    @property
    def in_the_way(self) -> bool:
        """Whether the day should be rotated now and obstacles keep it."""
        return self.action in (Action.ROTATE, Action.RESUME) and bool(self.obstacles)


@dataclass(frozen=True)
class AheadPlan:
    """A day to come: its tables stand, or must be made, or cannot be made because `occupied_by` has their names."""

    day: date
    stands: bool
    occupied_by: date | None = None


def comes_round(day: date) -> date:
    """Return the next date with the same day of the month: after 28 to 61 days."""
    year, month = day.year, day.month
    while True:
        year, month = (year + 1, 1) if month == 12 else (year, month + 1)  # noqa: PLR2004 - December
        try:
            return date(year, month, day.day)
        except ValueError:
            continue


def due_by(day: date) -> date:
    """Return the last business day on which `day` may still have its names: a day later tables are made under them."""
    return comes_round(day) - timedelta(days=AHEAD_DAYS + 1)


def first_day_to_drop(day: date, retention_days: int) -> date:
    """Return the first business day on which `day` may be dropped."""
    return day + timedelta(days=retention_days + 1)


def plan_day(facts: DayFacts, today: date, rules: Rules, obstacles: Sequence[Obstacle] = ()) -> DayPlan:
    """Decide what would happen to one day on `today`."""
    action, why = _decide(facts, today, rules)
    return DayPlan(facts, action, why, due_by(facts.day), tuple(obstacles))


def _decide(facts: DayFacts, today: date, rules: Rules) -> tuple[Action, str]:
    age, state = (today - facts.day).days, facts.state
    if not facts.states and not facts.empty:
        return Action.NOTHING, "it has no tables of this SET's databases"
    if state is State.HOT:
        if age < 0:
            return Action.WAIT, STILL_TO_COME
        if age < max(rules.grace_days, MIN_AGE_DAYS):
            first = facts.day + timedelta(days=max(rules.grace_days, MIN_AGE_DAYS))
            return Action.WAIT, f"{_days(age)} old; ordinary from {first} on"
        if facts.fenced:
            return Action.RESUME, "it is fenced and not closed: an earlier run was interrupted"
        if facts.empty:
            return Action.ROTATE, f"{_days(age)} old, and its tables have no leaves: they are dropped"
        return Action.ROTATE, f"{_days(age)} old"
    if state is State.DROPPED:
        return Action.NOTHING, "it lives in the archive alone"
    if state is State.VERIFIED:
        first = first_day_to_drop(facts.day, rules.retention_days)
        if today < first:
            return Action.KEEP, f"verified; may be dropped from {first} on"
        return Action.DROP, f"verified, and its retention ended on {first - timedelta(days=1)}"
    return Action.RESUME, f"it is {state.value} and not yet verified"


def plan_ahead(days: Iterable[DayFacts], today: date, ahead: int = AHEAD_DAYS) -> list[AheadPlan]:
    """Return for each day from today on whether its tables stand, can be made, or which day has their names."""
    facts = list(days)
    standing = {one.day for one in facts if one.attached}
    plans = []
    for offset in range(ahead + 1):
        day = today + timedelta(days=offset)
        holders = [one.day for one in facts if one.hot_leaves and one.day.day == day.day and one.day != day]
        occupied = None if day in standing or not holders else min(holders)
        plans.append(AheadPlan(day, day in standing, occupied))
    return plans


def alarm(days: Iterable[DayFacts], today: date) -> tuple[int, Alarm]:
    """Return how many days in a row after today have tables (-1: not even today has), and how urgent that is."""
    return judge(days_ahead({one.day for one in days if one.attached}, today))


def judge(ahead: int) -> tuple[int, Alarm]:
    """Return `ahead` unchanged, with how urgent that number of days is."""
    return ahead, Alarm.PAGE if ahead < PAGE_DAYS else Alarm.ALARM if ahead < ALARM_DAYS else Alarm.OK


def ready(plans: Collection[DayPlan], *, archives: bool = True) -> list[date]:
    """Return the days that a run without a date takes, oldest first; without an archive, no day that is detached."""
    return sorted(
        one.facts.day
        for one in plans
        if one.action in (Action.ROTATE, Action.RESUME) and (archives or one.facts.state.rank < State.DETACHED.rank)
    )


def _days(count: int) -> str:
    return counted(count, "day")
