"""The business days as a server knows them: when it looks again for tables that it has not seen."""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

from schema.day_tables import known_days
from setnode.days import BusinessDays
from sharding.ids import make_id
from sharding.topology import Topology
from tests.clock import ManualClock

NOON = datetime(2026, 11, 21, 4, tzinfo=UTC)
TODAY = date(2026, 11, 21)


class Catalog:
    """Stands for the session: which days have tables, and how often somebody has looked."""

    def __init__(self, *days: date) -> None:
        self.days = set(days)
        self.looks = 0

    async def run(self, work: Callable[..., Any]) -> set[date]:
        self.looks += work is known_days
        return set(self.days) if work is known_days else set()


def days_of(catalog: Catalog, clock: ManualClock) -> BusinessDays:
    async def nothing() -> None:
        pass

    topology = Topology(1, 100, (), "")
    session: Any = catalog
    return BusinessDays(session, clock, lambda: topology, nothing)


async def test_missing_tables_are_not_looked_for_by_every_create() -> None:
    """Creates of a day without tables cost Postgres one look in a second, however many there are."""
    catalog, clock = Catalog(TODAY - timedelta(days=1)), ManualClock(NOON)
    days = days_of(catalog, clock)
    for serial in range(50):
        assert not await days.has_tables(make_id(TODAY, serial, 0))
    assert catalog.looks == 1


async def test_a_new_business_date_is_looked_for_at_once() -> None:
    """A sandbox's clock may bring day after day within a second: tables that stand are found for each of them."""
    catalog, clock = Catalog(TODAY), ManualClock(NOON)
    days = days_of(catalog, clock)
    for ahead in range(1, 4):
        clock.advance(days=1)
        catalog.days.add(TODAY + timedelta(days=ahead))
        assert await days.has_tables(make_id(TODAY + timedelta(days=ahead), 0, 0))
    assert catalog.looks == 3
