"""DDL beside traffic: each attempt waits briefly for its table locks, and is repeated until it gets them.

`runtime.postgres.locks.retry_while_locked` does the waiting; here the error names the tables and the processes that
hold them.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
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

    async def run(
        self,
        connection: Connection,
        work: Callable[[], Awaitable[T]],
        *,
        tables: Sequence[str],
        waits_for: Callable[[], Awaitable[str]] | None = None,
    ) -> T:
        """Await `work()` until it gets its locks; it must be atomic or safe to repeat, and set its own `lock_timeout`.

        Raises Unavailable with `code` after `patience_s`, naming the processes that hold `tables` (names with schema),
        or with what `waits_for` says: `work` may wait for something else. "" if it does not.
        """
        try:
            return await locks.retry_while_locked(work, patience_s=self.patience_s, pause_most_s=self.pause_most_s)
        except Exception as error:
            if not locks.is_locked(error):
                raise
            text = "" if waits_for is None else await waits_for()
            text = text or f"{_named(tables)} could not be locked, held by {await _holders(connection, tables)}"
            sentence = f"{text}; tried for {self.patience_s:g} s, what is done stays, run it again"
            raise Unavailable(self.code, sentence) from error


async def _holders(connection: Connection, tables: Sequence[str]) -> str:
    rows = await connection.fetch(_HOLDERS, tables, HOLDERS_SHOWN)
    return named_processes({row["pid"]: row["usename"] for row in rows}) or "a process that has ended meanwhile"


def named_processes(found: Mapping[int, str]) -> str:
    """Return processes of Postgres as an error names them, by pid with their role; "" if there are none."""
    return ", ".join(f"process {pid} ({role})" for pid, role in found.items())


def _named(tables: Sequence[str]) -> str:
    more = len(tables) - TABLES_SHOWN
    return ", ".join(tables[:TABLES_SHOWN]) + (f" and {more} other tables" if more > 0 else "")
