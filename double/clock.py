"""A clock that goes as the machine's, and can be moved ahead."""

from datetime import datetime, timedelta

from runtime.clock import SystemClock, to_ms


class MovableClock:
    """The machine's time, and what it was moved by; it never goes back."""

    def __init__(self) -> None:
        self._system = SystemClock()
        self._ahead = timedelta()

    def now(self) -> datetime:
        """Return the present instant, aware, in UTC."""
        return self._system.now() + self._ahead

    def now_ms(self) -> int:
        """Return the present instant in milliseconds since the epoch."""
        return to_ms(self.now())

    def advance(self, by: timedelta) -> None:
        """Move it ahead; raises ValueError for a negative time."""
        if by < timedelta():
            raise ValueError("the clock moves ahead only: an envelope that has ended never opens again")
        self._ahead += by
