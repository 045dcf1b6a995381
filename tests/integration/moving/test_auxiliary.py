"""What stands outside the leaves moves, too: payouts not made yet, stuck ones, what is due, creates half way."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from errors import Refused, Unavailable
from moving.journal import move_lock
from moving.moves import move_by_time, move_live
from moving.route import Route
from setnode.services.payouts import payout_backlog
from setnode.services.payouts.stuck import redrive
from sharding.ids import make_id
from sharding.slots import database_name
from tests.integration.moving.checks import until_final
from tests.integration.moving.fixtures import Land, Traffic, land
from tests.integration.moving.move_and_die import DIED
from wire.messages import PayStatus
from wire.wallet import Order

__all__ = ["land"]
pytestmark = [pytest.mark.faults, pytest.mark.timeout(120)]


async def intents(land: Land, set_name: str) -> list[set[int]]:
    """The databases that each payout intent names."""
    rows = await land.on(set_name, "SELECT envelope_ids FROM payout_batch ORDER BY batch_id")
    return [{one % 1000 // 10 for one in row["envelope_ids"]} for row in rows]


@pytest.mark.long
async def test_payouts_that_wait_are_made_by_the_new_set(land: Land, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the old SET's payers away its intents go along, also out of mixed ones; what is stuck is stuck there."""
    moved, stays = land.topology.databases_of("set-1")[:2]

    async def away(_: object) -> None:
        raise Unavailable("wallet_unavailable", "the wallet is away for this SET")

    monkeypatch.setattr(land.nodes["set-1"].payer, "_wallet", type("Away", (), {"pay": staticmethod(away)}))
    one, other = Traffic(land, moved), Traffic(land, stays)
    mixed, single = False, []
    of_one = "FROM payout_batch WHERE cardinality(seqs) = 1 AND envelope_ids[1] % 1000 / 10 = $1"
    async with one.busy(senders=2, people=8), other.busy(senders=2, people=8):
        async with asyncio.timeout(20):
            while not (mixed and single):
                await asyncio.sleep(0.05)
                mixed = any(len(named) == 2 for named in await intents(land, "set-1"))
                single = await land.on("set-1", f"SELECT {of_one}", moved)
    stuck = f"""WITH p AS (SELECT batch_id, envelope_ids[1] AS e, seqs[1] AS s {of_one} LIMIT 1),
        gone AS (DELETE FROM payout_batch USING p WHERE payout_batch.batch_id = p.batch_id)
        INSERT INTO payout_stuck SELECT e, s, 3, now(), 'account frozen' FROM p RETURNING envelope_id, seq"""
    (one_stuck,) = await land.on("set-1", stuck, moved)
    done = await move_live(land.context(), database_name(moved), "set-2")
    assert done.figures["intents"] > 0
    assert (done.figures["stuck"], done.figures["due"]) == (1, len(one.envelopes))
    assert {xx for named in await intents(land, "set-1") for xx in named} == {stays}
    land.clock.advance(seconds=30)
    async with asyncio.timeout(30):
        while await intents(land, "set-2"):
            await asyncio.sleep(0.1)
    assert [tuple(row) for row in await land.on("set-2", "SELECT envelope_id, seq FROM payout_stuck")] == [
        (one_stuck["envelope_id"], one_stuck["seq"])
    ]
    monkeypatch.undo()
    async with land.context().connect("set-2") as connection:
        assert await redrive(connection, land.clock.now()) == 1
    # What any server may take up is as old as that by the land's clock, whatever the real one says.
    land.clock.advance(seconds=30)
    report = await land.settled()
    assert report.holds, report.violations
    assert report.sums.claims == len(one.heard) + len(other.heard)


@pytest.mark.long
async def test_unanswered_orders_do_not_stay_behind_in_memory(land: Land, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old server gives up on orders only after the move; nothing is written there of envelopes that have left."""
    moved, stays = land.topology.databases_of("set-1")[:2]
    payouts = land.nodes["set-1"].payouts

    async def silent(orders: list[Order]) -> list[tuple[PayStatus, str]]:
        return [(PayStatus.UNKNOWN, "no answer")] * len(orders)

    monkeypatch.setattr(land.nodes["set-1"].payer, "_wallet", type("Silent", (), {"pay": staticmethod(silent)}))
    one, other = Traffic(land, moved), Traffic(land, stays)
    async with one.busy(senders=2, people=8), other.busy(senders=2, people=8):
        await one.more(60)
        await other.more(60)
    assert (await move_live(land.context(), database_name(moved), "set-2")).complete
    assert payouts.held
    monkeypatch.setattr(payout_backlog, "PAY_ATTEMPTS", 0)
    async with asyncio.timeout(30):
        while payouts.held or payouts.unpaid_fen:
            await asyncio.sleep(0.1)
    stuck = await land.on("set-1", "SELECT envelope_id % 1000 / 10 AS xx FROM payout_stuck")
    assert {row["xx"] for row in stuck} == {stays}
    assert await intents(land, "set-1") == []
    monkeypatch.undo()
    async with land.context().connect("set-1") as connection:
        assert await redrive(connection, land.clock.now()) == len(stuck)
    land.clock.advance(seconds=30)
    report = await land.settled()
    assert report.holds, report.violations
    assert report.sums.claims == len(one.heard) + len(other.heard)
    assert await intents(land, "set-1") == await intents(land, "set-2") == []


async def test_a_create_that_died_before_the_move_is_undone_by_the_new_set(land: Land) -> None:
    """The new SET's sweeper had passed it as somebody else's; it goes back, finds it, and the money returns."""
    xx = land.database()
    await land.wallet.deposit("D1", "unlucky", 5_000)
    envelope_id = make_id(land.today, 77, xx * 10 + 3)
    await land.fund("ab" * 16, "terms", "unlucky", 3_000, envelope_id)
    await land.sweep("set-2")
    cursors = {name: (await land.on(name, "SELECT after FROM fund_cursor"))[0]["after"] for name in land.dsns}
    assert cursors["set-2"] > cursors["set-1"]
    assert (await move_live(land.context(), database_name(xx), "set-2")).complete
    assert await land.sweep("set-2") == 1
    report = await land.settled()
    assert report.holds, report.violations
    assert (report.sums.in_flight, report.sums.refunded_fen) == (0, 3_000)
    assert await land.wallet.balance("unlucky") == 5_000


async def test_the_old_sets_sweeper_passes_a_dead_create_while_it_moves(land: Land) -> None:
    """Between switch and settling it is nobody's to the old sweeper; the new one still goes back to the fence."""
    xx = land.database()
    await land.wallet.deposit("D1", "unlucky", 5_000)
    await land.fund("ab" * 16, "terms", "unlucky", 3_000, make_id(land.today, 77, xx * 10 + 3))
    await land.sweep("set-2")
    assert (await land.tool("live", database_name(xx), "set-2", "switched"))[0] == DIED
    async with asyncio.timeout(10):
        while land.nodes["set-1"].holds(make_id(land.today, 77, xx * 10 + 3)):
            await asyncio.sleep(0.05)
    assert await land.sweep("set-1") == 0
    assert (await move_live(land.context(), database_name(xx), None)).complete
    assert await land.sweep("set-2") == 1
    report = await land.settled()
    assert report.holds, report.violations
    assert await land.wallet.balance("unlucky") == 5_000


async def test_money_that_comes_late_for_a_day_that_moves_by_time_is_returned(land: Land) -> None:
    """It lands behind the fence, when the new SET's sweeper still takes it for somebody else's."""
    xx = land.database()
    name, old = database_name(xx), make_id(land.today, 77, xx * 10 + 3)
    await land.wallet.deposit("D1", "unlucky", 5_000)
    await move_by_time(land.context(), name, "set-2")
    land.at(land.today + timedelta(days=2), hour=1)
    await land.tables()
    await until_final(land, name, tool="fenced")
    await land.fund("ab" * 16, "terms", "unlucky", 3_000, old)
    assert await land.sweep("set-2") == 0
    assert (await until_final(land, name)).complete
    assert await land.sweep("set-2") == 1
    report = await land.settled()
    assert report.holds, report.violations
    assert await land.wallet.balance("unlucky") == 5_000


async def test_what_is_due_is_closed_by_the_new_set(land: Land) -> None:
    """An envelope that expires after the move is closed and refunded there."""
    xx = land.database()
    traffic = Traffic(land, xx)
    async with traffic.busy(people=0):
        await traffic.more(5)
    await move_live(land.context(), database_name(xx), "set-2")
    land.clock.advance(hours=25)
    async with asyncio.timeout(30):
        while (report := await land.settled()).sums.open_fen:
            await asyncio.sleep(0.2)
    assert report.holds, report.violations
    assert report.sums.refunded_fen == report.sums.paid_in_fen == 1_000 * len(traffic.envelopes)


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"database": "db_10"}, "unknown_database"),
        ({"to": "set-9"}, "unknown_set"),
        ({"to": "set-1"}, "already_there"),
        ({"to": None}, "no_move"),
    ],
)
async def test_bad_input_to_a_live_move_changes_nothing(land: Land, asked: dict[str, Any], code: str) -> None:
    """Each mistake has its code; topology, journals and tables are not touched."""
    before = land.path.read_bytes()
    with pytest.raises(Refused) as refused:
        await move_live(land.context(), **{"database": database_name(land.database()), "to": "set-2", **asked})
    assert refused.value.code == code
    assert land.path.read_bytes() == before
    for name in land.dsns:
        assert await land.on(name, "SELECT * FROM move") == []


async def test_a_move_by_time_and_a_live_one_do_not_mix(land: Land) -> None:
    """While one is open the other way is refused; while another process is at it so is everything."""
    xx = land.database()
    name = database_name(xx)
    async with move_lock(land.context(), Route(xx, "set-1", "set-2")):
        with pytest.raises(Refused) as busy:
            await move_live(land.context(), name, "set-2")
    assert busy.value.code == "move_running"
    await move_by_time(land.context(), name, "set-2")
    with pytest.raises(Refused) as mixed:
        await move_live(land.context(), name, "set-2")
    assert mixed.value.code == "other_move"
    assert land.topology.set_for_database(xx, land.today + timedelta(days=1)).name == "set-2"
