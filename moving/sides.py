"""Rows of a database outside its leaves: entries of `due`, payout intents, stuck payouts, how far the sweeper is.

They are copied behind the fence. An intent may name claims of many databases and has a number of its own SET, so what
concerns this database becomes an intent of the new SET: to pay it in both is to pay it once, under one order number.
"""

from collections.abc import Sequence
from typing import Any

from envelope.errors import InvariantBroken
from moving import queries

MOVED_BY = "move"
"""`server` of the intents that a move has brought: whoever finds them adopts them."""
_DUE = "SELECT expires_at, envelope_id FROM due WHERE envelope_id % 1000 = ANY($1::bigint[]) ORDER BY 1, 2"
_STUCK = "SELECT * FROM payout_stuck WHERE envelope_id % 1000 = ANY($1::bigint[]) ORDER BY envelope_id, seq"
_INTENTS = queries.read("intents")
_PLACE_INTENT = "INSERT INTO payout_batch (created_at, server, envelope_ids, seqs) VALUES ($1, $2, $3, $4)"
_FORGET = (
    "DELETE FROM due WHERE envelope_id % 1000 = ANY($1::bigint[])",
    "DELETE FROM payout_stuck WHERE envelope_id % 1000 = ANY($1::bigint[])",
)
_FORGET_COPIES = queries.read("forget_copies")
_CUT_INTENTS = queries.read("cut_intents")
_SWEEPER = "SELECT pg_advisory_xact_lock(hashtext('hongbao_sweeper'))"


async def copy_sides(source: Any, target: Any, slots: Sequence[int]) -> dict[str, int]:
    """Bring what concerns these slots to the target, replacing what an earlier try has brought; returns how much.

    Raises InvariantBroken `copies_are_equal` where what is there then is not what is here; nothing is brought then.
    """
    due, stuck, intents = [await source.fetch(query, slots) for query in (_DUE, _STUCK, _INTENTS)]
    async with target.transaction():
        await forget_copies(target, slots)
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


async def forget_copies(target: Any, slots: Sequence[int]) -> None:
    """Delete what `copy_sides` has brought."""
    for query in (*_FORGET, _FORGET_COPIES):
        await target.execute(query, slots)


async def forget_moved(source: Any, slots: Sequence[int]) -> None:
    """Delete at the source what the target has now; intents keep what concerns other databases."""
    async with source.transaction():
        for query in (*_FORGET, _CUT_INTENTS):
            await source.execute(query, slots)


async def sweeper_at(source: Any) -> int:
    """Return the fund up to which the source's sweeper has settled all. Asked behind the fence.

    Once the database is somebody else's that sweeper passes its funds like any others'.
    """
    return int(await source.fetchval("SELECT after FROM fund_cursor"))


async def turn_back_sweeper(target: Any, after: int) -> None:
    """Let the target's sweeper look again at all funds behind `after`. Idempotent.

    It passed those of this database as somebody else's. Called once all of its servers know better.
    """
    async with target.transaction():
        await target.execute(_SWEEPER)
        await target.execute("UPDATE fund_cursor SET after = $1 WHERE after > $1", after)
