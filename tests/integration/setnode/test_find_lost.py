"""What SETs know of and a wallet of an earlier instant does not: each once, in order of creation over all SETs."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import date, timedelta
from typing import Any

import pytest

from audit.proof import AuditTarget
from errors import Unavailable
from recovery import lost as lost_module
from recovery.lost import Lost, LostEnvelope, find_lost
from runtime import postgres
from schema import roles
from setnode.header_seal import HeaderSeal
from sharding.ids import day_of, slot_of
from tests.integration.setnode.fixtures import PASSWORD_KEY, SMALL, Town, module_databases, shared_town, town
from tests.integration.setnode.test_put_back import looked as looked_at_set
from wire.messages import PayKind

ENVELOPES = 8
_BARE = """INSERT INTO envelope (envelope_id, slot, sender, kind, split, split_version, total_fen, shares, greeting,
    created_at, opens_at, expires_at, seed, create_key, named)
SELECT $1, slot, 'victim', 'equal', 'equal', split_version, 5000, 1, '',
    created_at, opens_at, expires_at, seed, '', false
FROM envelope WHERE envelope_id = $2"""
__all__ = ["module_databases", "shared_town", "town"]


async def looked(town: Town, slots: list[int], since: date | None = None) -> tuple[list[LostEnvelope], Lost]:
    """Look at the town's SET as if it were two, one of which has `slots`."""
    assert town.databases is not None
    own, wallet = (town.databases.dsn_as(dsn, roles.AUDIT) for dsn in (town.set_dsn, town.wallet_dsn))
    others = [slot for slot in range(SMALL.slots) if slot not in slots]
    targets = [AuditTarget("set-1", own, slots), AuditTarget("set-2", own, others)]
    lost = Lost()
    return [one async for one in find_lost(targets, wallet, HeaderSeal(PASSWORD_KEY.encode()), lost, since)], lost


@asynccontextmanager
async def forgotten(dsn: str, table: str, column: str, values: Sequence[object]) -> AsyncIterator[None]:
    """For the block these rows are not there."""
    async with postgres.connected(dsn) as connection:
        await connection.execute(f"CREATE TEMP TABLE kept AS SELECT * FROM {table} WHERE {column} = ANY($1)", values)
        await connection.execute(f"DELETE FROM {table} WHERE {column} = ANY($1)", values)
        yield
        await connection.execute(f"INSERT INTO {table} OVERRIDING SYSTEM VALUE SELECT * FROM kept")


@asynccontextmanager
async def edited(dsn: str, table: str, column: str, envelope_id: int, value: str = "NULL") -> AsyncIterator[None]:
    """For the block the row of an envelope has this in a column, by default nothing."""
    where = "WHERE envelope_id = $1"
    async with postgres.connected(dsn) as connection:
        before = await connection.fetchval(f"SELECT {column} FROM {table} {where}", envelope_id)
        await connection.execute(f"UPDATE {table} SET {column} = {value} {where}", envelope_id)
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
    assert (await looked(town, []))[0] == []


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


EDITED = [
    ("claim", "claimed_at", "'infinity'"),
    ("envelope", "expires_at", "'infinity'"),
    ("envelope", "opens_at", "'20000-01-01'"),
    ("envelope", "split", "'x'"),
    *(("claim", one, "NULL") for one in ("seq", "kind", "user_id", "amount_fen", "claimed_at")),
    *(
        ("envelope", one, "NULL")
        for one in ("sender", "split", "total_fen", "shares", "greeting", "seed", "create_key")
    ),
    *(("envelope", one, "NULL") for one in ("created_at", "opens_at", "expires_at")),
]


@pytest.mark.long
@pytest.mark.parametrize(("table", "column", "value"), EDITED)
async def test_rows_that_hold_what_no_row_has_are_named_and_the_others_found(
    town: Town, table: str, column: str, value: str
) -> None:
    """An envelope with a column that was emptied, or filled with nonsense, by hand ends neither searches nor audit."""
    broken, whole = [await town.create(1_000, 2, split="equal", kind="equal") for _ in range(2)]
    for envelope_id in (broken, whole):
        await town.open(envelope_id, "a")
    await town.paid_out()
    orders = [f"{one}.0" for one in (broken, whole)]
    async with edited(town.set_dsn, table, column, broken, value):
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


async def test_a_refund_goes_back_to_the_sender(town: Town) -> None:
    """What was left of a canceled envelope is owed to who sent it, as a refund."""
    one = await town.create(1_000, 2, split="equal", kind="equal")
    await town.open(one, "a")
    await town.cancel(one, "sender")
    await town.paid_out()
    async with forgotten(town.wallet_dsn, "transfer", "order_no", [f"{one}.0", f"{one}.1"]):
        found, _ = await looked(town, [])
        later, _ = await looked(town, [], since=day_of(one) + timedelta(days=1))
    assert later == []
    assert [[(order.kind, order.user, order.amount_fen) for order in each.credits] for each in found] == [
        [(PayKind.CLAIM, "a", 500), (PayKind.REFUND, "sender", 500)]
    ]


async def test_without_a_seal_a_header_is_compared_with_its_fund(town: Town) -> None:
    """A header older than seals is the one that was paid for, or nothing of it is done."""
    one = await town.create(1_000, 2, split="equal", kind="equal")
    await town.open(one, "a")
    await town.paid_out()
    async with (
        edited(town.set_dsn, "envelope", "header_seal", one),
        forgotten(town.wallet_dsn, "transfer", "order_no", [f"{one}.0"]),
        postgres.connected(town.set_dsn) as connection,
    ):
        believed, _ = await looked(town, [])
        await connection.execute("UPDATE envelope SET greeting = 'x' WHERE envelope_id = $1", one)
        changed, _ = await looked(town, [])
        await connection.execute("UPDATE envelope SET greeting = '' WHERE envelope_id = $1", one)
    assert [each.broken for each in believed] == [""]
    assert ["its fund paid for" in each.broken for each in changed] == [True]


async def test_what_the_sweeper_has_undone_is_paid_in_and_back(town: Town) -> None:
    """Its header is bare and closed at once: the create has no key of its own, and the money goes to the sender."""
    real = await town.create(1_000, 2)
    undone = real + 1_000
    async with postgres.connected(town.set_dsn) as connection:
        await connection.execute(_BARE, undone, real)
        await connection.execute(
            "INSERT INTO claim (envelope_id, slot, seq, shares, kind, user_id, amount_fen, claimed_at) "
            "SELECT envelope_id, slot, 0, 1, 'undone', '', 5000, now() FROM envelope WHERE envelope_id = $1",
            undone,
        )
        (found,), _ = await looked(town, [])
        await connection.execute("DELETE FROM claim WHERE envelope_id = $1", undone)
        await connection.execute("DELETE FROM envelope WHERE envelope_id = $1", undone)
    assert (found.broken, found.fund and found.fund.create_key) == ("", f"undone-{undone}")
    assert [(order.kind, order.user) for order in found.credits] == [(PayKind.REFUND, "victim")]


async def test_a_database_that_goes_away_ends_the_search_with_a_sentence(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not with whatever the driver says of its connection."""
    one = await town.create(1_000, 2)
    await town.open(one, "a")
    await town.paid_out()
    real = lost_module.compared

    async def cut(connection: Any, wallet: Any, part: Any) -> AsyncGenerator[Any]:
        async for each in real(connection, wallet, part):
            await town.cut_off(connection)
            yield each

    monkeypatch.setattr(lost_module, "compared", cut)
    with pytest.raises(Unavailable, match="a database went away while the SETs were compared"):
        await looked(town, [])


async def test_a_closing_without_its_time_ends_nothing(town: Town) -> None:
    """As an open without it: the envelope is named."""
    one = await town.create(1_000, 2, split="equal", kind="equal")
    await town.cancel(one, "sender")
    await town.paid_out()
    async with (
        edited(town.set_dsn, "claim", "claimed_at", one),
        forgotten(town.wallet_dsn, "transfer", "order_no", [f"{one}.0"]),
    ):
        found, _ = await looked(town, [])
        report = await town.audit()
    assert [bool(each.broken) for each in found] == [True]
    assert str(one) in {each.subject for each in report.violations}
