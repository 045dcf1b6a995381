"""DDL beside traffic: each attempt waits briefly for its table locks, and is repeated until it gets them.

`runtime.postgres.locks.retry_while_locked` does the waiting; here the error names the tables and the processes that
hold them.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from days.limits import HOLDERS_SHOWN, TABLES_SHOWN
from errors import Unavailable
from runtime import sql
from runtime.postgres import Connection, locks

_HOLDERS = sql.read("days", "lock_holders")

T = TypeVar("T")


@dataclass(frozen=True)
class LockRetry:
    """How long a tool repeats an attempt, its longest pause between two, and the error code when it gives up."""

    code: str
    patience_s: float
    pause_most_s: float = locks.PAUSE_MOST_S

    async def run(self, connection: Connection, work: Callable[[], Awaitable[T]], *, tables: Sequence[str]) -> T:
        """Await `work()` until it gets its locks; it must be atomic or safe to repeat, and set its own `lock_timeout`.

        Raises Unavailable with `code` after `patience_s`, naming the processes that hold `tables` (names with schema).
        """
        try:
            return await locks.retry_while_locked(work, patience_s=self.patience_s, pause_most_s=self.pause_most_s)
        except Exception as error:
            if not locks.is_locked(error):
                raise
            held_by = await _holders(connection, tables)
            text = (
                f"{_named(tables)} could not be locked within {self.patience_s:g} s, held by {held_by}; "
                "what is done stays, run it again"
            )
            raise Unavailable(self.code, text) from error


async def _holders(connection: Connection, tables: Sequence[str]) -> str:
    rows = await connection.fetch(_HOLDERS, tables, HOLDERS_SHOWN)
    found = ", ".join(f"process {row['pid']} ({row['usename']})" for row in rows)
    return found or "a process that has ended meanwhile"


def _named(tables: Sequence[str]) -> str:
    more = len(tables) - TABLES_SHOWN
    return ", ".join(tables[:TABLES_SHOWN]) + (f" and {more} other tables" if more > 0 else "")
