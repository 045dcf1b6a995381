"""Which IDs can be of a day that has come: one comparison on the way of an open."""

from datetime import timedelta
from zoneinfo import ZoneInfo

from gateway.limits import FUTURE_SLACK_S
from runtime.clock import Clock
from sharding.ids import business_date, check_not_future, end_id


class Calendar:
    """Knows the end of the latest business day that has begun. Days only come, so a bound once passed stays passed."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._end = 0

    def check(self, envelope_id: int, zone: ZoneInfo) -> None:
        """Raise Refused `future_envelope_id` for the ID of a day that has not come, give or take differing clocks."""
        if envelope_id < self._end:
            return
        today = business_date(self._clock.now() + timedelta(seconds=FUTURE_SLACK_S), zone)
        self._end = end_id(today)
        check_not_future(envelope_id, today)
