"""Compares funds with headers, and writes closed headers for those that have none: the sweeper's work in Postgres.

A fund is at fault alone. One that Postgres does not accept is found by halves, like every bad row of a batch.
"""

import secrets
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from typing import Any, NamedTuple

from archive.register import read_register
from envelope.split import SPLIT_VERSION
from errors import InvariantBroken
from runtime import logs, sql
from runtime.postgres import is_bad_row
from schema.day_tables import known_days
from setnode.commit.fences import split_by_fence
from setnode.limits import SWEEP_REASON_CHARS
from sharding.ids import database_for, day_of

_UNDO = sql.read("setnode", "undo_creates")
_SET_APART = sql.read("setnode", "set_funds_apart")
_NEAR = timedelta(days=2)
"""A day may be begun or over by another zone's clock; a create for a day further away is refused before money moves."""

_log = logs.get("setnode")

Fund = tuple[int, int, str, int]
"""Fund ID, envelope ID, sender, total in fen."""


class Compared(NamedTuple):
    """What became of the funds of a page that are this SET's, each in order of fund ID.

    `standing` have a header. `missing` have none. `waiting` may have one later: a fence refuses, or the tables of a day
    near today are missing. `apart` (with the reason) can have none.
    """

    standing: list[Fund]
    missing: list[Fund]
    waiting: list[Fund]
    apart: list[tuple[Fund, str]]


class _Missing(Exception):
    """Rolls back the headers of a probe; carries the IDs that had none."""

    def __init__(self, envelope_ids: set[int]) -> None:
        super().__init__(envelope_ids)
        self.envelope_ids = envelope_ids


async def compare(connection: Any, funds: Sequence[Fund], holds: Callable[[int], bool], now: datetime) -> Compared:
    """Compare the funds that this SET `holds` with the headers here; writes nothing."""
    found = Compared([], [], [], [])
    days = await known_days(connection)
    ours: list[tuple[Fund, date]] = []
    for fund in funds:
        if not holds(fund[1]):
            continue
        try:
            ours.append((fund, day_of(fund[1])))
        except (ValueError, InvariantBroken):
            found.apart.append((fund, "its envelope ID begins with no day of the calendar"))
    # A day in the register is proven: each of its funds has a header, in whatever table or archive.
    proven = await read_register(connection, {day for _, day in ours} - days)
    hot: list[Fund] = []
    for fund, day in ours:
        if day in days:
            hot.append(fund)
        elif (day, database_for(fund[1])) in proven:
            found.standing.append(fund)
        elif abs(day - now.date()) <= _NEAR:
            found.waiting.append(fund)
        else:
            found.apart.append((fund, "its day has no tables and is not in the register"))
    await _probe(connection, hot, now, found)
    for part in found:
        part.sort()
    return found


async def undo(connection: Any, funds: Sequence[Fund], now: datetime, server: str) -> int:
    """Write closed headers, with the refund's payout intent, where there are none; returns how many; durable then."""
    rows = await _write(connection, funds, now, server)
    for row in rows:
        _log.warning("create undone: its money was in escrow without an envelope", envelope_id=str(row["envelope_id"]))
    return len(rows)


async def set_apart(connection: Any, funds: Sequence[tuple[Fund, str]]) -> int:
    """Keep funds for an operator; returns how many this SET has set apart in all. Repeating it is harmless."""
    for (fund_id, envelope_id, _, total_fen), reason in funds:
        _log.error("a fund is set apart", fund_id=fund_id, envelope_id=str(envelope_id), fen=total_fen, reason=reason)
    columns = zip(*((*fund, reason[:SWEEP_REASON_CHARS]) for fund, reason in funds), strict=True)
    return int(await connection.fetchval(_SET_APART, *(list(map(list, columns)) or [[]] * 5)))


async def _probe(connection: Any, funds: Sequence[Fund], now: datetime, found: Compared) -> None:
    """Sort funds of days that have tables, by trying to write their headers; what was written is rolled back."""
    if not funds:
        return
    missing: set[int] = set()
    try:
        async with connection.transaction():
            if rows := await _write(connection, funds, now, ""):
                raise _Missing({row["envelope_id"] for row in rows})
    except _Missing as without:
        missing = without.envelope_ids
    except Exception as error:
        parts = split_by_fence(funds, error, lambda fund: fund[1])
        if parts is None and is_bad_row(error):
            if len(funds) == 1:
                found.apart.append((funds[0], f"its header is not accepted: {error}"))
                return
            middle = len(funds) // 2
            parts = [list(funds[:middle]), list(funds[middle:])]
        if parts is None:
            raise
        if len(parts) == 1:
            found.waiting.extend(funds)
            return
        for part in parts:
            await _probe(connection, part, now, found)
        return
    found.missing.extend(fund for fund in funds if fund[1] in missing)
    found.standing.extend(fund for fund in funds if fund[1] not in missing)


async def _write(connection: Any, funds: Sequence[Fund], now: datetime, server: str) -> Sequence[Any]:
    rows: Sequence[Any] = await connection.fetch(
        _UNDO,
        [envelope_id for _, envelope_id, _, _ in funds],
        [user for _, _, user, _ in funds],
        [total_fen for *_, total_fen in funds],
        [secrets.token_hex(32) for _ in funds],
        now,
        server,
        SPLIT_VERSION,
    )
    return rows
