"""Statements of a database server: those that took most time, where they are counted, and those that run now."""

import asyncio

import msgspec

from errors import Unavailable
from inspection.database import Statement, read_statements
from inspection.limits import INSPECT_S, TOP
from runtime import postgres, sql

_ACTIVITY = sql.read("inspection", "activity")
COUNTED, RUNNING = "pg_stat_statements", "pg_stat_activity"


class Running(msgspec.Struct, frozen=True):
    """A statement that runs now. `waits_for`: Postgres' wait event, "" if it is on a CPU."""

    role: str
    state: str
    waits_for: str
    running_ms: float
    query: str


class Slow(msgspec.Struct, frozen=True):
    """`source`: COUNTED, then `counted` is filled; or RUNNING, because the server does not count statements."""

    server: str
    source: str
    counted: list[Statement]
    running: list[Running]


async def slow_statements(server: str, dsn: str) -> Slow:
    """Read them with any role that may read statistics; raises Unavailable `database_unavailable`."""
    async with postgres.connected(dsn) as connection:
        try:
            async with asyncio.timeout(INSPECT_S):
                counted = await read_statements(connection)
                running = [Running(**dict(row)) for row in await connection.fetch(_ACTIVITY, TOP)]
        except Exception as error:
            if not postgres.is_lost(error):
                raise
            connection.terminate()
            raise Unavailable("database_unavailable", f"{server} does not answer: {error}") from error
    return Slow(server, RUNNING if counted is None else COUNTED, counted or [], running)
