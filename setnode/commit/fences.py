"""The fences that a write meets: of a day that is closed, of a database that leaves this SET (schema: `moved_away`).

A fence refuses the whole transaction; `parted` says into which parts it goes again, so that only those fail whom it
concerns.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import date
from typing import TypeVar

from envelope.errors import Unavailable
from sharding.ids import day_of, slot_of
from sharding.slots import database_of

DAY_CLOSED = "HB001"
MOVED_AWAY = "HB002"
NO_PARTITION = "23514"

T = TypeVar("T")


def closed_day(error: BaseException) -> date | None:
    """Return the business day whose fence refused a write, and with it its whole transaction; None for other errors."""
    if getattr(error, "sqlstate", None) != DAY_CLOSED:
        return None
    return date.fromisoformat(getattr(error, "detail", None) or "")


def moved_database(error: BaseException) -> int | None:
    """Return the database xx whose fence refused a write, and with it its whole transaction; None for other errors."""
    if getattr(error, "sqlstate", None) != MOVED_AWAY:
        return None
    return int(getattr(error, "detail", None) or -1)


def lacks_tables(error: BaseException) -> bool:
    """Say whether a row's day has no tables."""
    return getattr(error, "sqlstate", None) == NO_PARTITION and "partition" in str(error)


def parted(rows: Iterable[T], error: BaseException, id_of: Callable[[T], int]) -> list[list[T]] | None:
    """Return the parts into which refused rows go apart: by database or by day; None where no fence refused them.

    One part alone means that the fence refused exactly these.
    """
    key: Callable[[int], object]
    if moved_database(error) is not None:
        key = _database_of
    elif closed_day(error) is not None or lacks_tables(error):
        key = day_of
    else:
        return None
    parts: dict[object, list[T]] = defaultdict(list)
    for row in rows:
        parts[key(id_of(row))].append(row)
    return list(parts.values())


def wrong_set() -> Unavailable:
    """Return what is told to those whose write was refused: nothing of it was written."""
    return Unavailable("wrong_set", "this envelope has left for another SET; look at the topology again")


def _database_of(envelope_id: int) -> int:
    return database_of(slot_of(envelope_id))
