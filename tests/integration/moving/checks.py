"""What tests of moves ask again and again: is nothing left behind, and is the move by time over yet."""

import asyncio
import contextlib
from typing import Any

import msgspec

from errors import HongbaoError
from moving.moves import move_by_time
from rotation import lock
from sharding.slots import database_name
from sharding.topology import Topology
from tests.integration.moving.fixtures import Land
from tests.integration.moving.move_and_die import DIED


async def nothing_left(land: Land, set_name: str, xx: int) -> None:
    """No leaf, no side row, no slot and no subscription of the database is left on a SET."""
    name, slots = database_name(xx), list(range(xx * 10, xx * 10 + 10))
    assert await land.on(set_name, f"SELECT FROM pg_class WHERE relnamespace = to_regnamespace('{name}')::oid") == []
    for table, ids in (("due", "envelope_id"), ("payout_stuck", "envelope_id")):
        assert await land.on(set_name, f"SELECT FROM {table} WHERE {ids} % 1000 = ANY($1::bigint[])", slots) == []
    intents = "SELECT FROM payout_batch, unnest(envelope_ids) AS e WHERE e % 1000 = ANY($1::bigint[])"
    assert await land.on(set_name, intents, slots) == []


def as_it_was(topology: Topology) -> Topology:
    """What a topology says: a tool that goes on with a move publishes it anew, and changes nothing else by that."""
    return msgspec.structs.replace(topology, version=1)


async def no_stream(land: Land) -> None:
    """Nothing follows anything: a slot that nobody reads would keep the log for ever."""
    for name in land.dsns:
        mine = "(SELECT oid FROM pg_database WHERE datname = current_database())"
        assert await land.on(name, f"SELECT subname FROM pg_subscription WHERE subdbid = {mine}") == []
        assert (
            await land.on(name, "SELECT slot_name FROM pg_replication_slots WHERE database = current_database()") == []
        )
        assert await land.on(name, "SELECT pubname FROM pg_publication") == []


async def until_final(
    land: Land, database: str, *, code: str = "", tool: str = "", rotating: str = "", patience_s: float = 30.0
) -> Any:
    """Finish as soon as the old days are over: done, refused with `code` (None), or by a `tool` that dies at a point.

    `rotating` is the SET of this DSN meanwhile.
    """
    async with asyncio.timeout(patience_s):
        while True:
            async with contextlib.AsyncExitStack() as stack:
                if rotating:
                    await stack.enter_async_context(lock.rotation_lock(rotating))
                if tool:
                    status, said = await land.tool("by_time", database, None, tool)
                    if status == DIED:
                        return None
                    assert "days_not_final" in said, said
                    continue
                try:
                    return await move_by_time(land.context(), database, None)
                except HongbaoError as refused:
                    if refused.code == code:
                        return None
                    if refused.code != "days_not_final":
                        raise
            await asyncio.sleep(0.2)


async def rows_of(land: Land, set_name: str, xx: int) -> int:
    slots = range(xx * 10, xx * 10 + 10)
    query = """SELECT (SELECT count(*) FROM envelope WHERE slot = ANY($1::smallint[]))
        + (SELECT count(*) FROM claim WHERE slot = ANY($1::smallint[])) AS n"""
    return (await land.on(set_name, query, list(slots)))[0]["n"]
