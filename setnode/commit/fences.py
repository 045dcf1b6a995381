"""The fences: refusals by Postgres of a day that is closed, or of a database that has left this SET.

Authority. The fences are triggers on the leaf tables (schema: `moved_away`, the closing of a day; days without tables
are refused by partitioning). They hold whatever this server believes: a server with an outdated topology or list of
days cannot write past them.

State. A day is open, closed, or without tables; a database is here or moved. Both change only by rotation and moving.

How it fails. A fence refuses the whole transaction, so nothing of it is written. `split_by_fence` returns the parts in
which the rows are written again, so that only the envelopes concerned fail. If there is one part, the fence refused all
of its rows, and they are not tried again.

Why it is safe. The refusal is part of the transaction, not a check before it: between a check and the write a day could
close (docs/decisions/0011, 0012; tests/integration/setnode/test_closed_days.py, tests/integration/moving).
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import date
from typing import TypeVar

from errors import Refused, Unavailable
from sharding.ids import database_for, yymmdd_of

DAY_CLOSED = "HB001"
MOVED_AWAY = "HB002"
NO_PARTITION = "23514"

T = TypeVar("T")


def closed_day(error: BaseException) -> date | None:
    """Return the business day whose fence refused a transaction; None for other errors."""
    if getattr(error, "sqlstate", None) != DAY_CLOSED:
        return None
    return date.fromisoformat(getattr(error, "detail", None) or "")


def moved_database(error: BaseException) -> int | None:
    """Return the number xx of the database whose fence refused a transaction; None for other errors."""
    if getattr(error, "sqlstate", None) != MOVED_AWAY:
        return None
    return int(getattr(error, "detail", None) or -1)


def lacks_tables(error: BaseException) -> bool:
    """Say whether a transaction was refused because a row's day has no tables."""
    return getattr(error, "sqlstate", None) == NO_PARTITION and "partition" in str(error)


def split_by_fence(rows: Iterable[T], error: BaseException, id_of: Callable[[T], int]) -> list[list[T]] | None:
    """Return the parts, by database or by day, in which refused rows are written again; None if no fence refused them.

    A single part means that the fence refused all of these rows: do not try them again.
    """
    key: Callable[[int], object]
    if moved_database(error) is not None:
        key = _database_of
    elif closed_day(error) is not None or lacks_tables(error):
        # Not the calendar's day: a row with an ID of no day must not keep the others from being written.
        key = yymmdd_of
    else:
        return None
    parts: dict[object, list[T]] = defaultdict(list)
    for row in rows:
        parts[key(id_of(row))].append(row)
    return list(parts.values())


def wrong_set() -> Unavailable:
    """Return the reply to a request whose database has left this SET: nothing was written."""
    return Unavailable("wrong_set", "this envelope has left for another SET; look at the topology again")


def day_closed(day: date) -> Refused:
    """Return the reply to a create for a day that is closed for good."""
    return Refused("day_closed", f"the business day {day} is closed; use a new key, and operators look for the money")


def _database_of(envelope_id: int) -> int:
    return database_for(envelope_id)
