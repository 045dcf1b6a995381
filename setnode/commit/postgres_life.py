"""Which Postgres this server works with: another one answers after a failover or a restore, and each restart counts.

A log in memory that is behind Postgres is caught by the unique keys. One that is ahead is not: a standby that lacked
the last commits took over, or a copy of before was put in place, and the next claim would leave a gap. So the logs of
an earlier life are read again before anything is decided from them, and what was decided from them is not written.

For a while two Postgres may answer. Sessions that read logs or commit claims look where each new connection leads
(`look`). What a connection to another than the one that was seen last has read is not taken, and nothing is written on
it (`check`): its session is dropped by the caller, and looks again.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

from errors import Unavailable
from runtime import logs

Renewed: TypeAlias = Callable[[int], None]

_STARTED_AT = "SELECT pg_postmaster_start_time()"

_log = logs.get("setnode")


class PostgresLife:
    """`number` is raised when a Postgres is seen that began at another time than the one seen last.

    `renewed` is called with each new number.
    """

    def __init__(self) -> None:
        self.number = 0
        self.renewed: Renewed = lambda _: None
        self._started_at: datetime | None = None
        self._seen_by: WeakKeyDictionary[Any, datetime] = WeakKeyDictionary()

    async def look(self, connection: Any) -> None:
        """See which Postgres a connection that was just made leads to."""
        started_at: datetime = await connection.fetchval(_STARTED_AT)
        self._seen_by[connection] = started_at
        self.saw(started_at)

    def saw(self, started_at: datetime) -> None:
        """Take in when the Postgres that answers has begun."""
        before, self._started_at = self._started_at, started_at
        if before not in (None, started_at):
            self.number += 1
            _log.info("another Postgres answers, or it has begun anew: logs are read again", life=self.number)
            self.renewed(self.number)

    def check(self, connection: Any, number: int | None = None) -> None:
        """Raise Unavailable if `connection` leads to another Postgres than the one seen last; nothing was sent.

        With `number`, also if what is to be written was decided in another life.
        """
        if self._seen_by.get(connection) != self._started_at or number not in (None, self.number):
            raise Unavailable("database_unavailable", "another Postgres answers; what it has is read first")
