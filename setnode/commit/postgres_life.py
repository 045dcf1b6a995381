"""Which life of Postgres this server works with: another one answers after a failover, a restore or a restart.

A log in memory that is behind Postgres is caught by the unique keys. One that is ahead is not: a standby that lacked
the last commits took over, or a copy of before was put in place, and the next claim would leave a gap. So the logs of
an earlier life are read again before anything is decided from them, and what was decided from them is not written.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeAlias

from errors import Unavailable
from runtime import logs

Renewed: TypeAlias = Callable[[int], None]

_log = logs.get("setnode")


class PostgresLife:
    """`number` is raised when a Postgres answers that began at another time than the one before.

    `renewed` is called with each new number.
    """

    def __init__(self) -> None:
        self.number = 0
        self.renewed: Renewed = lambda _: None
        self._started_at: datetime | None = None

    async def look(self, connection: Any) -> None:
        """See which Postgres a connection that was just made leads to."""
        self.saw(await connection.fetchval("SELECT pg_postmaster_start_time()"))

    def saw(self, started_at: datetime) -> None:
        """Take in when the Postgres that answers has begun."""
        before, self._started_at = self._started_at, started_at
        if before not in (None, started_at):
            self.number += 1
            _log.info("another Postgres answers, or it has begun anew: logs are read again", life=self.number)
            self.renewed(self.number)

    def check(self, number: int) -> None:
        """Raise Unavailable unless decisions that were made in the life `number` may be written; nothing was sent."""
        if number != self.number:
            raise Unavailable("database_unavailable", "another Postgres answers; what it has is read first")
