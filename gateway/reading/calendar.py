"""Business day and second in IDs, remembered until they end: one comparison on the way of an open or a create."""

from datetime import timedelta
from zoneinfo import ZoneInfo

from gateway.limits import FUTURE_SLACK_S
from runtime.clock import Clock, from_ms
from sharding.ids import business_date, check_not_future, end_id, first_id_at


class Calendar:
    """Knows this second, and the end of the latest business day that has begun: days only come, so it stays passed."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._end = 0
        self._second: tuple[ZoneInfo | None, int, int] = (None, 0, 0)

    def first_id(self, zone: ZoneInfo, now_ms: int) -> int:
        """Return the least ID of the second of an instant, which is now or was a moment ago."""
        known, second, first = self._second
        now_s = now_ms // 1_000
        if known is zone and now_s == second:
            return first
        first = first_id_at(from_ms(now_ms), zone)
        self._second = (zone, now_s, first)
        return first

    def check(self, envelope_id: int, zone: ZoneInfo) -> None:
        """Raise Refused `future_envelope_id` for the ID of a day that has not come, give or take differing clocks."""
        if envelope_id < self._end:
            return
        today = business_date(self._clock.now() + timedelta(seconds=FUTURE_SLACK_S), zone)
        self._end = end_id(today)
        check_not_future(envelope_id, today)
