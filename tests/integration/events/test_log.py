"""The log itself: what a look at it costs, and what is deleted of it."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from events import register
from events.cursor import Cursor
from events.log_reader import read
from events.register import Target, add
from runtime import sql
from tests.integration.events.fixtures import operator, sink_of
from tests.integration.setnode.fixtures import Town, town

__all__ = ["town"]

_WRITE = """INSERT INTO event_log (what, envelope_ids, seqs, shares, kinds, user_ids, amounts_fen)
SELECT 'claims', '{7}', '{0}', '{2}', '{open}', '{u}', '{5}' FROM generate_series(1, $1)"""


async def _write(town: Town, entries: int, transactions: int = 1) -> None:
    for _ in range(transactions):
        await town.rows(_WRITE, entries)


async def _stop_after(connection: Any, name: str, entries: int) -> Cursor:
    """Move a sink's cursor over the next entries, into the middle of a span."""
    (*_, (_, cursor)), _ = await read(connection, (await _cursor(connection, name)), entries)
    await connection.execute(
        "UPDATE event_cursor SET seen = $2::text::pg_snapshot, upto = $3::text::pg_snapshot, "
        "after_xid = $4::text::xid8, after_entry = $5 WHERE sink = $1",
        name, *cursor,
    )  # fmt: skip
    return cursor


async def _cursor(connection: Any, name: str) -> Cursor:
    return next(one.cursor for one in await register.list_sinks(connection) if one.target.name == name)


@pytest.fixture
async def bus(town: Town) -> AsyncIterator[Any]:
    """A connection as operators have it, and a sink `bus` that nobody delivers to."""
    async with operator(town) as connection:
        assert await add(connection, Target("bus", "nats", "nats://127.0.0.1:1"))
        yield connection
        await connection.execute("DELETE FROM event_sink")
        await town.rows("DELETE FROM event_log")


async def test_a_look_does_not_walk_through_what_another_sink_waits_for(town: Town, bus: Any) -> None:
    """While one sink is paused the log grows; looks for another one touch a few pages all the same."""
    await _write(town, 10_000, 3)
    assert await add(bus, Target("app", "nats", "nats://127.0.0.1:1"))
    cursor = (await sink_of(town, "app")).cursor
    for query, args in (
        (sql.read("events", "read_log"), (cursor.seen, None, cursor.after_xid, cursor.after_entry, 16)),
        (register._LIST, ()),
    ):
        found = json.loads(await bus.fetchval(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {query}", *args))
        plan = found[0]["Plan"]
        assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 60, plan
    assert [one.behind_s > 0 for one in await register.list_sinks(bus)] == [False, True]


async def test_what_is_passed_in_the_middle_of_a_span_is_deleted(town: Town, bus: Any) -> None:
    """A sink that catches up after days frees what it has passed, and has lost only what it had not."""
    await _write(town, 2, 10)
    await _stop_after(bus, "bus", 7)
    assert (
        await bus.fetchval(sql.read("events", "trim_log"), 5_000, "0") == 6
    )  # the fourth transaction is passed by half
    await _stop_after(bus, "bus", 12)
    drop = sql.read("events", "drop_old")
    assert await bus.fetchval(drop, 3_600.0, 5_000, "0") == 0
    assert await bus.fetchval(drop, 0.0, 13, "0") == 0
    assert (await sink_of(town, "bus")).lost_until is None
    assert await town.scalar("SELECT count(*) FROM event_log") == 1
    assert await bus.fetchval(drop, 0.0, 13, "0") == 1
    assert (await sink_of(town, "bus")).lost_until is not None
