"""One SET of the benchmark: a month of day tables, whatever the month before it."""

from datetime import date, timedelta

import pytest

from loadtest.bench.oneset import nameable_days


@pytest.mark.parametrize(
    ("today", "days"),
    [
        (date(2026, 11, 23), 30),  # behind October
        (date(2026, 12, 31), 30),
        (date(2027, 3, 1), 27),  # behind February
        (date(2028, 3, 10), 28),  # of 29 days
        (date(2027, 3, 29), 29),
    ],
)
def test_no_two_days_of_a_run_have_one_name(today: date, days: int) -> None:
    """Tables are named by the day of the month: as many days as possible, tomorrow's among them, and not one more."""
    assert nameable_days(today) == days
    names = [(today + timedelta(days=1 - back)).day for back in range(days + 1)]
    assert len(set(names)) == len(names)
    assert (today - timedelta(days=days)).day in names
