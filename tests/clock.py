"""The clock of tests and simulated years."""

from datetime import datetime, timedelta

from runtime.clock import to_ms


class ManualClock:
    """A clock that moves only when told to."""

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
