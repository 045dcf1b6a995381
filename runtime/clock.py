"""Time comes in from outside: the system's clock in production, a manual one in tests and simulations."""

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """What the rooms ask of time."""

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


class ManualClock:
    """A clock that moves only when told to, for tests and simulated years."""

    def __init__(self, start: datetime) -> None:
        self._now = start

    def now(self) -> datetime:
        """Return the instant last set."""
        return self._now

    def now_ms(self) -> int:
        """Return the instant last set, in milliseconds since the epoch."""
        return to_ms(self._now)

    def advance(self, **delta: float) -> None:
        """Move forward by `timedelta(**delta)`."""
        self._now += timedelta(**delta)


def to_ms(instant: datetime) -> int:
    """Milliseconds since the epoch, exact (no float in between)."""
    whole = instant - datetime(1970, 1, 1, tzinfo=UTC)
    return (whole.days * 86_400 + whole.seconds) * 1000 + whole.microseconds // 1000


def from_ms(milliseconds: int) -> datetime:
    """Return the aware UTC instant of `milliseconds` since the epoch, exact."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
