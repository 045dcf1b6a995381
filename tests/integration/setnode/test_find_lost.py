"""What SETs know of and a wallet of an earlier instant does not: each once, in order of creation over all SETs."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from audit.proof import AuditTarget
from recovery.lost import Lost, LostOf, find_lost
from runtime import postgres
from schema import roles
from setnode.header_seal import HeaderSeal
from sharding.ids import slot_of
from tests.integration.setnode.fixtures import PASSWORD_KEY, SMALL, Town, module_databases, shared_town, town
from tests.integration.setnode.test_put_back import looked as looked_at_set

ENVELOPES = 8
_BARE = """INSERT INTO envelope (envelope_id, slot, sender, kind, split, split_version, total_fen, shares, greeting,
    created_at, opens_at, expires_at, seed, create_key, named)
SELECT $1, slot, 'victim', 'equal', 'equal', split_version, 5000, 1, '',
    created_at, opens_at, expires_at, seed, '', false
FROM envelope WHERE envelope_id = $2"""
__all__ = ["module_databases", "shared_town", "town"]


async def looked(town: Town, slots: list[int]) -> tuple[list[LostOf], Lost]:
    """Look at the town's SET as if it were two, one of which has `slots`."""
    assert town.databases is not None
    own, wallet = (town.databases.dsn_as(dsn, roles.AUDIT) for dsn in (town.set_dsn, town.wallet_dsn))
    others = [slot for slot in range(SMALL.slots) if slot not in slots]
    targets = [AuditTarget("set-1", own, slots), AuditTarget("set-2", own, others)]
    lost = Lost()
    return [one async for one in find_lost(targets, wallet, HeaderSeal(PASSWORD_KEY.encode()), lost)], lost


@asynccontextmanager
async def forgotten(dsn: str, table: str, column: str, values: Sequence[object]) -> AsyncIterator[None]:
    """For the block these rows are not there."""
    async with postgres.connected(dsn) as connection:
        await connection.execute(f"CREATE TEMP TABLE kept AS SELECT * FROM {table} WHERE {column} = ANY($1)", values)
        await connection.execute(f"DELETE FROM {table} WHERE {column} = ANY($1)", values)
        yield
        await connection.execute(f"INSERT INTO {table} OVERRIDING SYSTEM VALUE SELECT * FROM kept")


@asynccontextmanager
async def emptied(dsn: str, table: str, column: str, envelope_id: int) -> AsyncIterator[None]:
    """For the block the row of an envelope has nothing in a column."""
    where = "WHERE envelope_id = $1"
    async with postgres.connected(dsn) as connection:
        before = await connection.fetchval(f"SELECT {column} FROM {table} {where}", envelope_id)
        await connection.execute(f"UPDATE {table} SET {column} = NULL {where}", envelope_id)
        yield
        await connection.execute(f"UPDATE {table} SET {column} = $2 {where}", envelope_id, before)


async def test_what_a_wallet_lacks_is_found_in_order_of_creation(town: Town) -> None:
    """A fund with its credits, and a credit alone, of whichever SET; what the wallet has, or is on its way, is not."""
    made = [await town.create(1_000, 2, split="equal", kind="equal") for _ in range(ENVELOPES)]
    for envelope_id in made:
        await town.open(envelope_id, "a")
    await town.paid_out()
    slots = [slot_of(envelope_id) for envelope_id in made[::2]]
    assert (await looked(town, slots))[0] == []
    # The first has lost nothing, all others their credit, and one in four its fund as well.
    async with (
        forgotten(town.wallet_dsn, "transfer", "order_no", [f"{one}.0" for one in made[1:]]),
        forgotten(town.wallet_dsn, "fund", "envelope_id", made[1::4]),
    ):
        with town.nothing_paid():
            await town.open(made[0], "b")
            found, lost = await looked(town, slots)
    await town.paid_out()
    assert [one.envelope_id for one in found] == made[1:]
    assert [one.set_name for one in found] == [
        "set-1" if slot_of(one.envelope_id) in slots else "set-2" for one in found
    ]
    assert [one.envelope_id for one in found if one.fund is not None] == made[1::4]
    assert [[(order.order_no, order.amount_fen) for order in one.credits] for one in found] == [
        [(f"{one.envelope_id}.0", 500)] for one in found
    ]
    assert lost == Lost(ENVELOPES, 2, 2 * 1_000, 7, 7 * 500)


async def test_what_a_setnode_would_freeze_is_named_as_such(town: Town) -> None:
    """A header, or a claim, that was edited in the database is found with the reason why nothing of it may be paid."""
    edited, claimed = [await town.create(1_000, 2, split="equal", kind="equal") for _ in range(2)]
    for envelope_id in (edited, claimed):
        await town.open(envelope_id, "a")
    await town.paid_out()
    async with (
        forgotten(town.wallet_dsn, "transfer", "order_no", [f"{one}.0" for one in (edited, claimed)]),
        postgres.connected(town.set_dsn) as connection,
    ):
        await connection.execute("UPDATE envelope SET greeting = 'x' WHERE envelope_id = $1", edited)
        await connection.execute("UPDATE claim SET amount_fen = 501 WHERE envelope_id = $1", claimed)
        found, _ = await looked(town, [])
        await connection.execute("UPDATE envelope SET greeting = '' WHERE envelope_id = $1", edited)
        await connection.execute("UPDATE claim SET amount_fen = 500 WHERE envelope_id = $1", claimed)
    assert {one.envelope_id: bool(one.broken) for one in found} == {edited: True, claimed: True}
    assert "changed by hand" in next(one.broken for one in found if one.envelope_id == edited)
    assert all(one.broken == "" for one in (await looked(town, []))[0])


async def test_a_bare_header_that_nobody_has_closed_takes_nobodys_money(town: Town) -> None:
    """What the sweeper undoes it closes at once; a header like it that is open, without a seal, is not believed."""
    real = await town.create(1_000, 2)
    forged = real + 1_000
    async with postgres.connected(town.set_dsn) as connection:
        await connection.execute(_BARE, forged, real)
        found, _ = await looked(town, [])
        await connection.execute("DELETE FROM envelope WHERE envelope_id = $1", forged)
    assert [(one.envelope_id, one.broken) for one in found] == [
        (forged, "its header has no seal, and no fund tells whose it is")
    ]


EMPTIED = [
    *(("claim", one) for one in ("seq", "kind", "user_id", "amount_fen", "claimed_at")),
    *(("envelope", one) for one in ("sender", "split", "total_fen", "shares", "greeting", "seed", "create_key")),
    *(("envelope", one) for one in ("created_at", "opens_at", "expires_at")),
]


@pytest.mark.parametrize(("table", "column"), EMPTIED)
async def test_rows_that_lack_what_every_row_has_are_named_and_the_others_found(
    town: Town, table: str, column: str
) -> None:
    """Whoever can edit tables can empty a column: that ends neither the searches nor the audit."""
    broken, whole = [await town.create(1_000, 2, split="equal", kind="equal") for _ in range(2)]
    for envelope_id in (broken, whole):
        await town.open(envelope_id, "a")
    await town.paid_out()
    orders = [f"{one}.0" for one in (broken, whole)]
    async with emptied(town.set_dsn, table, column, broken):
        async with forgotten(town.wallet_dsn, "transfer", "order_no", orders):
            found, _ = await looked(town, [])
        report = await town.audit()
        # A row of a claim that lacks something cannot be written back.
        lost = [whole] if table == "claim" else [broken, whole]
        async with forgotten(town.set_dsn, "claim", "envelope_id", lost):
            put_back = await looked_at_set(town)
    assert {one.envelope_id: bool(one.broken) for one in found} == {broken: True, whole: False}
    subjects = {one.subject.partition(".")[0] for one in report.violations}
    assert (str(broken) in subjects, str(whole) in subjects) == (True, False)
    assert whole in {row[0] for row in put_back.rows}
    assert broken not in {row[0] for row in put_back.rows}
    assert (await looked(town, []))[0] == []
