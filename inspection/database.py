"""One SET's Postgres at one instant: what its catalog costs, who is connected, what is bloated or slow.

Reads the catalog and statistics views, and writes nothing. The size of a table is read under its ACCESS SHARE lock, so
DDL on that table may delay an inspection, up to INSPECT_S.
"""

import asyncio
from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import msgspec

from errors import Unavailable
from inspection.limits import INSPECT_S, TOP
from runtime import postgres, sql
from runtime.postgres import Connection, connected
from schema.day_tables import known_days

_CATALOG = sql.read("inspection", "catalog")
_CONNECTIONS = sql.read("inspection", "connections")
_BLOAT = sql.read("inspection", "bloat")
_AGES = sql.read("inspection", "ages")
_STATEMENTS = sql.read("inspection", "statements")
_NOT_COUNTED = {"42P01", "55000", "42501"}
"""No such relation, not preloaded, not allowed: pg_stat_statements is not here, or not for this role."""


class Catalog(msgspec.Struct, frozen=True):
    """What tables cost without a row in them; `lock_slots` bounds how many relations one transaction may lock."""

    leaves: int
    relations: int
    files: int
    catalog_bytes: int
    database_bytes: int
    lock_slots: int
    locks_held: int
    max_connections: int


class Connections(msgspec.Struct, frozen=True):
    """Connections of one role, program and state. `memory_bytes` is their private memory, None if it cannot be read."""

    role: str
    program: str
    state: str
    connections: int
    oldest_transaction_s: float | None
    memory_bytes: int | None


class Bloat(msgspec.Struct, frozen=True):
    """A table with dead rows; `live` and `dead` are Postgres' estimates of rows."""

    name: str
    live: int
    dead: int
    bytes: int
    xid_age: int
    vacuumed_at: str | None


class Statement(msgspec.Struct, frozen=True):
    """A statement and what it took since its counters were last reset."""

    calls: int
    total_ms: float
    mean_ms: float
    max_ms: float
    rows: int
    query: str


class DatabaseFigures(msgspec.Struct, frozen=True):
    """All figures of one SET. `statements` is None if pg_stat_statements is not loaded there.

    `days` are the business dates with tables. `next_swap` is the first date to come whose table names still belong to
    an older date, which must be rotated before; None if there is none within a month.
    """

    set: str
    catalog: Catalog
    connections: list[Connections]
    xid_age: int
    xid_forced_at: int
    multixact_age: int
    bloat: list[Bloat]
    statements: list[Statement] | None
    days: list[date]
    next_swap: date | None


async def inspect_database(name: str, dsn: str) -> DatabaseFigures:
    """Read a SET's figures with any role that may read statistics.

    Raises Unavailable `database_unavailable` if the SET is away, after AWAY_S at most.
    """
    async with connected(dsn) as connection:
        try:
            async with asyncio.timeout(INSPECT_S):
                return await _read(name, connection)
        except Exception as error:
            if not postgres.is_lost(error):
                raise
            connection.terminate()
            text = f"the connection was lost during the inspection: {error or type(error).__name__}"
            raise Unavailable("database_unavailable", text) from error


async def _read(name: str, connection: Connection) -> DatabaseFigures:
    ages = await connection.fetchrow(_AGES)
    days = sorted(await known_days(connection))
    return DatabaseFigures(
        set=name,
        catalog=Catalog(**dict(await connection.fetchrow(_CATALOG))),
        connections=[_connections(row) for row in await connection.fetch(_CONNECTIONS)],
        xid_age=ages["xid_age"],
        xid_forced_at=ages["forced_at"],
        multixact_age=ages["multixact_age"],
        bloat=[_bloat(row) for row in await connection.fetch(_BLOAT, TOP)],
        statements=await read_statements(connection),
        days=days,
        next_swap=next_swap(days),
    )


def next_swap(days: Sequence[date]) -> date | None:
    """Return the first date after the last of `days` that has the same day of the month as one of them."""
    if not days:
        return None
    taken = {day.day for day in days}
    coming = (max(days) + timedelta(days=ahead) for ahead in range(1, 32))
    return next((day for day in coming if day.day in taken), None)


def _connections(row: Any) -> Connections:
    memory = [_private_bytes(pid) for pid in row["pids"]]
    known = [one for one in memory if one is not None]
    return Connections(
        role=row["role"] or "",
        program=row["program"],
        state=row["state"],
        connections=row["connections"],
        oldest_transaction_s=row["oldest_transaction_s"],
        memory_bytes=sum(known) if len(known) == len(memory) else None,
    )


def _private_bytes(pid: int) -> int | None:
    """Return the private memory of a process of this machine; None if it is not here or may not be read."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    kilobytes = [int(line.split()[1]) for line in lines if line.startswith(("Private_Clean:", "Private_Dirty:"))]
    return sum(kilobytes) * 1024


def _bloat(row: Any) -> Bloat:
    at = row["vacuumed_at"]
    return Bloat(**{**dict(row), "vacuumed_at": None if at is None else at.isoformat()})


async def read_statements(connection: Connection) -> list[Statement] | None:
    """Return those that took the most time together; None if the server does not count them for this role."""
    try:
        return [Statement(**dict(row)) for row in await connection.fetch(_STATEMENTS, TOP)]
    except Exception as error:
        if getattr(error, "sqlstate", "") in _NOT_COUNTED:
            return None
        raise
