"""A DBA's look at one SET: what its catalog costs, who is connected, what is bloated, slow or hot.

All figures are of one instant and cost the SET a few milliseconds; nothing is written and no lock is waited for.
"""

import asyncio
from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import msgspec

from envelope.errors import Unavailable
from runtime import postgres
from schema.day_tables import known_days
from upkeep import queries

_CATALOG = queries.read("catalog")
_CONNECTIONS = queries.read("connections")
_BLOAT = queries.read("bloat")
_AGES = queries.read("ages")
_STATEMENTS = queries.read("statements")
LOOK_S = 15.0
"""All of it takes milliseconds; a catalog of a hundred thousand relations a second."""
TOP = 10
"""Tables and statements shown."""
_MISSING = {"42P01", "55000", "42501"}
"""No such relation, not preloaded, not allowed: statements are not counted here, or not for this role."""


class Catalog(msgspec.Struct, frozen=True):
    """What tables cost without a row in them. Sizes in bytes; `lock_slots` bounds what one DDL may touch."""

    leaves: int
    relations: int
    files: int
    catalog_bytes: int
    database_bytes: int
    lock_slots: int
    locks_held: int
    max_connections: int


class Connections(msgspec.Struct, frozen=True):
    """Connections of one role, program and state. `memory_bytes` is their own memory; None where it cannot be read."""

    role: str
    program: str
    state: str
    connections: int
    oldest_transaction_s: float | None
    memory_bytes: int | None


class Bloat(msgspec.Struct, frozen=True):
    """A table with dead rows."""

    name: str
    live: int
    dead: int
    bytes: int
    xid_age: int
    vacuumed_at: str | None


class Statement(msgspec.Struct, frozen=True):
    """A statement and what it took since the counters began."""

    calls: int
    total_ms: float
    mean_ms: float
    max_ms: float
    rows: int
    query: str


class Look(msgspec.Struct, frozen=True):
    """All of it. `statements` is None where the server does not count them (pg_stat_statements is not loaded).

    `days` are the business dates with tables; `next_swap` is the date whose leaf names are still those of another
    date and must be rotated before its tables can be made; None while there is none within a month.
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


async def look(name: str, dsn: str) -> Look:
    """Look at a SET with any role that may read statistics; raises Unavailable when it is away, in 20 s at most."""
    connection = await postgres.connect(dsn)
    try:
        async with asyncio.timeout(LOOK_S):
            return await _look(name, connection)
    except Exception as error:
        if not postgres.is_lost(error):
            raise
        connection.terminate()
        text = f"Postgres was lost while it was looked at: {error or type(error).__name__}"
        raise Unavailable("database_unavailable", text) from error
    finally:
        await connection.close(timeout=postgres.CONNECT_S)


async def _look(name: str, connection: Any) -> Look:
    ages = await connection.fetchrow(_AGES)
    days = sorted(await known_days(connection))
    return Look(
        set=name,
        catalog=Catalog(**dict(await connection.fetchrow(_CATALOG))),
        connections=[_connections(row) for row in await connection.fetch(_CONNECTIONS)],
        xid_age=ages["xid_age"],
        xid_forced_at=ages["forced_at"],
        multixact_age=ages["multixact_age"],
        bloat=[_bloat(row) for row in await connection.fetch(_BLOAT, TOP)],
        statements=await _statements(connection),
        days=days,
        next_swap=next_swap(days),
    )


def next_swap(days: Sequence[date]) -> date | None:
    """Return the first date after the last of `days` whose day of the month one of them still has."""
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
    """Return what a backend on this machine has for itself; None where it is elsewhere or not ours to look at."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    kilobytes = [int(line.split()[1]) for line in lines if line.startswith(("Private_Clean:", "Private_Dirty:"))]
    return sum(kilobytes) * 1024


def _bloat(row: Any) -> Bloat:
    at = row["vacuumed_at"]
    return Bloat(**{**dict(row), "vacuumed_at": None if at is None else at.isoformat()})


async def _statements(connection: Any) -> list[Statement] | None:
    try:
        return [Statement(**dict(row)) for row in await connection.fetch(_STATEMENTS, TOP)]
    except Exception as error:
        if getattr(error, "sqlstate", "") in _MISSING:
            return None
        raise
