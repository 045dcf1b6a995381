"""The clock that rooms are given, so that tests and simulations can give another one; conversions of instants."""

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """A source of the present instant."""

    def now(self) -> datetime:
        """Return the present instant, aware, in UTC."""

    def now_ms(self) -> int:
        """Return the present instant in milliseconds since the epoch."""


class SystemClock:
    """The clock of this machine."""

    def now(self) -> datetime:
        """Return the present instant, aware, in UTC."""
        return datetime.now(UTC)

    def now_ms(self) -> int:
        """Return the present instant in milliseconds since the epoch."""
        return time.time_ns() // 1_000_000


def to_ms(instant: datetime) -> int:
    """Return milliseconds since the epoch, exact (no float in between)."""
    whole = instant - datetime(1970, 1, 1, tzinfo=UTC)
    return (whole.days * 86_400 + whole.seconds) * 1000 + whole.microseconds // 1000


def from_ms(milliseconds: int) -> datetime:
    """Return the aware UTC instant of `milliseconds` since the epoch, exact."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
