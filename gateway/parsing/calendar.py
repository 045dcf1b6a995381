"""The business day and the second that IDs hold, cached until they end."""

from datetime import timedelta
from zoneinfo import ZoneInfo

from gateway.limits import FUTURE_SLACK_S
from runtime.clock import Clock, from_ms
from sharding.ids import business_date, check_not_future, end_id, first_id_at


class Calendar:
    """Gives the first ID of this second to creates, and refuses IDs of days to come.

    Caches both for as long as they are valid, so that most requests cost one comparison.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._end = 0
        self._second: tuple[ZoneInfo | None, int, int] = (None, 0, 0)

    def first_id(self, zone: ZoneInfo, now_ms: int) -> int:
        """Return the least ID of a second. Only the last second is cached, so give it the present instant."""
        known, second, first = self._second
        now_s = now_ms // 1_000
        if known is zone and now_s == second:
            return first
        first = first_id_at(from_ms(now_ms), zone)
        self._second = (zone, now_s, first)
        return first

    def check(self, envelope_id: int, zone: ZoneInfo) -> None:
        """Raise Refused `future_envelope_id` for an ID of a day that begins later than FUTURE_SLACK_S from now."""
        if envelope_id < self._end:
            return
        today = business_date(self._clock.now() + timedelta(seconds=FUTURE_SLACK_S), zone)
        self._end = end_id(today)
        check_not_future(envelope_id, today)
