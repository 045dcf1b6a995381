"""The business day in IDs, remembered until it ends: one comparison on the way of an open or a create."""

from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

from gateway.limits import FUTURE_SLACK_S
from runtime.clock import Clock, from_ms, to_ms
from sharding.ids import business_date, check_not_future, end_id, first_id


class Calendar:
    """Knows today, and the end of the latest business day that has begun: days only come, so that one stays passed."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._end = 0
        self._today: tuple[ZoneInfo | None, int, int, int] = (None, 0, 0, 0)

    def first_id(self, zone: ZoneInfo, now_ms: int) -> int:
        """Return the least ID of the business day of an instant, which is now or was a moment ago."""
        known, begins_ms, ends_ms, first = self._today
        if known is zone and begins_ms <= now_ms < ends_ms:
            return first
        today = business_date(from_ms(now_ms), zone)
        begins, ends = (to_ms(datetime.combine(day, time(), zone)) for day in (today, today + timedelta(days=1)))
        self._today = (zone, begins, ends, first_id(today))
        return self._today[3]

    def check(self, envelope_id: int, zone: ZoneInfo) -> None:
        """Raise Refused `future_envelope_id` for the ID of a day that has not come, give or take differing clocks."""
        if envelope_id < self._end:
            return
        today = business_date(self._clock.now() + timedelta(seconds=FUTURE_SLACK_S), zone)
        self._end = end_id(today)
        check_not_future(envelope_id, today)
