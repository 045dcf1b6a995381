"""Auxiliary rows: what a database has outside its leaves (`due`, payout intents, stuck payouts, the sweeper's cursor).

They are copied behind the fence, not replicated. A payout intent may name claims of many databases, and its batch_id is
given by its own SET, so the part that concerns this database becomes a new intent of the target. If both SETs send it,
the wallet pays once: the order numbers are the same.
"""

from collections.abc import Sequence

from errors import InvariantBroken
from moving import lock
from runtime import sql
from runtime.postgres import Connection
from sharding.slots import database_of

MOVED_BY = "move"
"""`server` of the intents that a move has copied: any server of the target adopts them."""
_DUE = "SELECT expires_at, envelope_id FROM due WHERE envelope_id % 1000 = ANY($1::bigint[]) ORDER BY 1, 2"
_STUCK = "SELECT * FROM payout_stuck WHERE envelope_id % 1000 = ANY($1::bigint[]) ORDER BY envelope_id, seq"
_INTENTS = sql.read("moving", "intents")
_PLACE_INTENT = "INSERT INTO payout_batch (created_at, server, envelope_ids, seqs) VALUES ($1, $2, $3, $4)"
_DELETE = (
    "DELETE FROM due WHERE envelope_id % 1000 = ANY($1::bigint[])",
    "DELETE FROM payout_stuck WHERE envelope_id % 1000 = ANY($1::bigint[])",
)
_DELETE_COPIES = sql.read("moving", "delete_copies")
_CUT_INTENTS = sql.read("moving", "cut_intents")
_SWEEPER = "SELECT pg_advisory_xact_lock(hashtext('hongbao_sweeper'))"


async def copy_auxiliary(source: Connection, target: Connection, slots: Sequence[int]) -> dict[str, int]:
    """Copy these slots' auxiliary rows to the target, replacing those of an earlier try; returns how many of each kind.

    Raises InvariantBroken `copies_are_equal` if both sides differ after that; the copy is rolled back then.
    """
    due, stuck, intents = [await source.fetch(query, slots) for query in (_DUE, _STUCK, _INTENTS)]
    async with target.transaction():
        await delete_copies(target, slots)
        await target.executemany("INSERT INTO due VALUES ($1, $2)", [tuple(row) for row in due])
        for row in stuck:
            places = ", ".join(f"${number}" for number in range(1, len(row) + 1))
            query = f"INSERT INTO payout_stuck ({', '.join(row.keys())}) VALUES ({places})"  # noqa: S608 - catalog names
            await target.execute(query, *row)
        await target.executemany(
            _PLACE_INTENT, [(row["created_at"], MOVED_BY, row["envelope_ids"], row["seqs"]) for row in intents]
        )
        for what, query, before in (
            ("due", _DUE, due),
            ("payout_stuck", _STUCK, stuck),
            ("intents", _INTENTS, intents),
        ):
            after = await target.fetch(query, slots)
            if sorted(map(tuple, after), key=repr) != sorted(map(tuple, before), key=repr):
                text = f"{what}: {len(before)} rows here, {len(after)} there, or other ones"
                raise InvariantBroken("copies_are_equal", text)
    return {"due": len(due), "stuck": len(stuck), "intents": len(intents)}


async def delete_copies(target: Connection, slots: Sequence[int]) -> None:
    """Delete at the target what `copy_auxiliary` has copied; never after the switch. Idempotent.

    In one transaction, and only if this connection holds the move lock: after a sleep of any length the rows might be
    those of a database that is served there. Raises Unavailable `move_lock_lost`.
    """
    async with target.transaction():
        await lock.check(target, database_of(slots[0]))
        for query in (*_DELETE, _DELETE_COPIES):
            await target.execute(query, slots)


async def delete_moved(source: Connection, slots: Sequence[int]) -> None:
    """After the switch, delete at the source what the target has; intents keep other databases' claims. Idempotent.

    Only if this connection holds the move lock; raises Unavailable `move_lock_lost`.
    """
    async with source.transaction():
        await lock.check(source, database_of(slots[0]))
        for query in (*_DELETE, _CUT_INTENTS):
            await source.execute(query, slots)


async def sweeper_cursor(source: Connection) -> int:
    """Return the number of the fund up to which the source's sweeper has settled all; call it behind the fence.

    From there the target's sweeper must look: after the switch the source's sweeper skips this database's funds.
    """
    return int(await source.fetchval("SELECT after FROM fund_cursor"))


async def rewind_sweeper(target: Connection, after: int) -> None:
    """Let the target's sweeper look again at all funds after `after`. Idempotent.

    It skipped this database's funds as another SET's. Call it once all of its servers go by the new topology.
    """
    async with target.transaction():
        await target.execute(_SWEEPER)
        await target.execute("UPDATE fund_cursor SET after = $1 WHERE after > $1", after)
