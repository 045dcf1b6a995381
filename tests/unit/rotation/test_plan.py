"""The plan over calendars: what goes when, why, and by when the names of a day are needed again."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archive.states import State
from cli.commands.rotate_text import _folded
from days.finality import Obstacle
from rotation.facts import DayFacts
from rotation.limits import GRACE_DAYS, RETENTION_DAYS
from rotation.plan import (
    STILL_TO_COME,
    Action,
    Alarm,
    Rules,
    alarm,
    comes_round,
    due_by,
    first_day_to_drop,
    judge,
    plan_ahead,
    plan_day,
    ready,
)
from schema.day_tables import AHEAD_DAYS
from schema.names import TableKind
from sharding.ids import business_date

DAYS = st.dates(date(2010, 1, 1), date(2092, 9, 30))
RULES = Rules()


def hot(day: date, **more) -> DayFacts:
    return DayFacts(day, {0: State.HOT, 1: State.HOT}, set(TableKind), hot_leaves={0: 21, 1: 21}, **more)


def cold(day: date, state: State, other: State | None = None) -> DayFacts:
    return DayFacts(day, {0: state, 1: other or state})


@pytest.mark.parametrize(
    ("day", "again"),
    [
        (date(2026, 1, 28), date(2026, 2, 28)),
        (date(2026, 2, 28), date(2026, 3, 28)),
        (date(2026, 2, 1), date(2026, 3, 1)),
        (date(2026, 1, 29), date(2026, 3, 29)),
        (date(2028, 1, 29), date(2028, 2, 29)),
        (date(2028, 2, 29), date(2028, 3, 29)),
        (date(2026, 1, 30), date(2026, 3, 30)),
        (date(2026, 1, 31), date(2026, 3, 31)),
        (date(2026, 3, 31), date(2026, 5, 31)),
        (date(2026, 12, 31), date(2027, 1, 31)),
        (date(2026, 12, 1), date(2027, 1, 1)),
        (date(2026, 7, 31), date(2026, 8, 31)),
    ],
)
def test_names_come_round_with_the_calendar(day, again):
    """Months of 28 to 31 days, leap years, the end of the year: the next date that has this day of the month."""
    assert comes_round(day) == again


@given(DAYS)
def test_a_name_never_comes_round_before_its_day_is_ordinary(day):
    """Between the grace and the making of the next day of that name there are days to spare, in every month."""
    again = comes_round(day)
    assert again.day == day.day
    assert 28 <= (again - day).days <= 62
    assert not any((day + timedelta(days=n)).day == day.day for n in range(1, (again - day).days))
    assert due_by(day) - (day + timedelta(days=GRACE_DAYS)) >= timedelta(days=7)


@given(DAYS, st.integers(-20, 60))
def test_a_day_waits_for_its_grace_and_then_goes(day, age):
    """Not a day early, never late; what is still to come is left alone."""
    plan = plan_day(hot(day), day + timedelta(days=age), RULES)
    assert plan.action is (Action.ROTATE if age >= GRACE_DAYS else Action.WAIT)
    assert bool(ready([plan])) is (age >= GRACE_DAYS)


@pytest.mark.parametrize(("grace", "age", "action"), [(0, 0, Action.WAIT), (0, 1, Action.WAIT), (0, 2, Action.ROTATE)])
def test_no_setting_makes_a_day_of_yesterday_go(grace, age, action):
    """Creates may be on their way round midnight."""
    assert plan_day(hot(date(2026, 3, 1)), date(2026, 3, 1) + timedelta(days=age), Rules(grace)).action is action


@pytest.mark.parametrize(
    ("facts", "action"),
    [
        (hot(date(2026, 2, 1), fenced=True), Action.RESUME),
        (cold(date(2026, 2, 1), State.CLOSED), Action.RESUME),
        (cold(date(2026, 2, 1), State.DETACHED), Action.RESUME),
        (cold(date(2026, 2, 1), State.EXPORTED), Action.RESUME),
        (cold(date(2026, 2, 1), State.VERIFIED, State.EXPORTED), Action.RESUME),
        (cold(date(2026, 2, 1), State.VERIFIED), Action.KEEP),
        (cold(date(2026, 1, 1), State.VERIFIED), Action.DROP),
        (cold(date(2026, 1, 1), State.DROPPED, State.VERIFIED), Action.DROP),
        (cold(date(2026, 1, 1), State.DROPPED), Action.NOTHING),
        (DayFacts(date(2026, 1, 1)), Action.NOTHING),
    ],
)
def test_a_day_is_as_far_as_its_last_database(facts, action):
    """What an interrupted run left is resumed; what is verified is kept for its retention, then may be dropped."""
    assert plan_day(facts, date(2026, 2, 20), RULES).action is action


@given(DAYS, st.integers(0, 400))
def test_the_retention_is_counted_from_the_business_date(day, retention):
    """The day after the retention's last is the first on which it may go."""
    rules, first = Rules(retention_days=retention), first_day_to_drop(day, retention)
    assert first == day + timedelta(days=retention + 1)
    facts = cold(day, State.VERIFIED)
    assert plan_day(facts, first - timedelta(days=1), rules).action is Action.KEEP
    assert plan_day(facts, first, rules).action is Action.DROP
    assert Rules().retention_days == RETENTION_DAYS


def test_obstacles_of_a_day_that_is_to_go_are_in_its_way():
    """Of a day that waits anyhow they are not."""
    obstacle = Obstacle("envelope_open", "1", "envelope 1 is open", 3)
    old, young = (plan_day(hot(date(2026, 2, day)), date(2026, 2, 20), RULES, [obstacle]) for day in (1, 19))
    assert (old.in_the_way, young.in_the_way) == (True, False)


@given(st.dates(date(2010, 2, 1), date(2092, 9, 30)), st.integers(0, 80))
def test_names_in_the_way_are_those_of_an_older_day_with_the_same_day_of_the_month(today, behind):
    """The days to come are named with whoever holds their leaves; a day that is detached holds none."""
    stuck = today - timedelta(days=behind)
    days = [hot(today - timedelta(days=n)) for n in range(3)]
    days.append(hot(stuck))
    for one in plan_ahead(days, today)[1:]:
        expected = stuck if one.day.day == stuck.day else None
        if any((today - timedelta(days=n)).day == one.day.day for n in range(3)):
            continue
        assert one.occupied_by == expected
    gone = [DayFacts(stuck, {0: State.DETACHED})]
    assert all(one.occupied_by is None for one in plan_ahead(gone, today))


@pytest.mark.parametrize(
    ("standing", "ahead", "urgency"),
    [
        (range(AHEAD_DAYS + 1), AHEAD_DAYS, Alarm.OK),
        (range(8), 7, Alarm.OK),
        (range(7), 6, Alarm.ALARM),
        (range(3), 2, Alarm.ALARM),
        (range(2), 1, Alarm.PAGE),
        (range(1), 0, Alarm.PAGE),
        ((), -1, Alarm.PAGE),
        ((0, 1, 2, 4, 5, 6, 7, 8, 9, 10), 2, Alarm.ALARM),
    ],
)
def test_a_gap_counts_as_the_end_of_what_is_made(standing, ahead, urgency):
    """Alarm below seven days without a gap, page below two."""
    today = date(2026, 12, 28)
    assert alarm([hot(today + timedelta(days=n)) for n in standing], today) == (ahead, urgency)
    assert judge(ahead) == (ahead, urgency)


@pytest.mark.parametrize(
    ("zone", "instant", "day"),
    [
        ("Asia/Shanghai", datetime(2026, 12, 31, 15, 59, 59, tzinfo=UTC), date(2026, 12, 31)),
        ("Asia/Shanghai", datetime(2026, 12, 31, 16, 0, tzinfo=UTC), date(2027, 1, 1)),
        ("America/New_York", datetime(2028, 3, 1, 4, 59, tzinfo=UTC), date(2028, 2, 29)),
        ("America/New_York", datetime(2028, 3, 1, 5, 0, tzinfo=UTC), date(2028, 3, 1)),
    ],
)
def test_the_date_is_that_of_the_time_zone(zone, instant, day):
    """A plan made around midnight counts in business days, not in UTC's."""
    today = business_date(instant, ZoneInfo(zone))
    assert today == day
    facts = hot(day - timedelta(days=GRACE_DAYS))
    assert plan_day(facts, today, RULES).action is Action.ROTATE
    assert plan_day(facts, today - timedelta(days=1), RULES).action is Action.WAIT


def test_days_to_come_are_one_row_of_a_printed_plan():
    """Ten days that wait for their date say so once, with their sums; every other day keeps its row."""
    day = {"state": "hot", "action": "wait", "obstacles": [], "claims_about": 1, "bytes": 2, "names_needed_from": "x"}
    old = {**day, "date": "2026-11-20", "why": "1 day old"}
    coming = [{**day, "date": f"2026-12-{one:02d}", "why": STILL_TO_COME} for one in range(1, 11)]
    *kept, one = _folded([old, *coming])
    assert kept == [old]
    assert (one["date"], one["why"]) == ("2026-12-01 to 2026-12-10", "10 days still to come")
    assert (one["claims_about"], one["bytes"]) == (10, 20)
    assert _folded([old, coming[0]]) == [old, coming[0]]
