"""What the setnode makes of a day that is being closed under it."""

import asyncio
from datetime import date, timedelta

import asyncpg
import pytest

from envelope.split import SPLIT_VERSION, Split
from envelope.terms import Kind, Terms
from errors import Refused
from rotation.fence import fence, unfence
from setnode.actors.batch import ClaimBatch
from setnode.commit.create_queue import CreateQueue
from setnode.commit.store import append_claims
from sharding.ids import business_date, day_of, make_id
from tests.integration.setnode.fixtures import Town, town
from wire.messages import Op

__all__ = ["town"]


def a_claim(envelope_id: int, user: str) -> tuple:
    return (envelope_id, 0, 3, "open", user, 10)


@pytest.mark.parametrize("many", [1, 500])
async def test_a_batch_that_meets_a_fence_loses_only_the_claims_of_that_day(town: Town, many: int) -> None:
    """The claims of other days in the same batch are written with their intent; those of the closed day are refused."""
    today = business_date(town.clock.now())
    tomorrow = today + timedelta(days=1)
    connection = await asyncpg.connect(town.set_dsn)
    await fence(connection, today)
    batch = ClaimBatch(town.clock.now_ms())
    closed = [make_id(today, n, 7) for n in range(many)]
    others = [make_id(tomorrow, n, 7) for n in range(many)]
    batch.claims = [a_claim(one, "ann") for pair in zip(closed, others, strict=True) for one in pair]
    written = await append_claims(connection, batch, "a", "")
    assert written.refused == frozenset(closed)
    assert {row["envelope_id"] for row in await connection.fetch("SELECT envelope_id FROM claim")} == set(others)
    assert await connection.fetchval("DELETE FROM payout_batch RETURNING envelope_ids") == others
    await unfence(connection, today)
    await connection.execute("TRUNCATE claim")
    await connection.close()


async def test_an_open_of_a_closed_day_hears_the_truth(town: Town) -> None:
    """An actor that does not know that its envelope was closed loses the race, reads the log and answers from it."""
    envelope_id = await town.create(300, 3)
    await town.open(envelope_id, "ann")
    node, stale = town.owner(envelope_id), town.other(envelope_id)
    await town.open(envelope_id, "bob", node=stale)
    await town.cancel(envelope_id, "sender")
    await town.paid_out()
    actor = stale.registry._actors[envelope_id]
    actor.generation = stale.registry.generation  # it has not heard of the cancel
    connection = await asyncpg.connect(town.set_dsn)
    await fence(connection, day_of(envelope_id))
    assert (await town.open(envelope_id, "cid", node=stale))["result"] == "canceled"
    assert (await town.open(envelope_id, "ann", node=stale))["result"] == "already_opened"
    assert (await town.open(envelope_id, "cid", node=node))["result"] == "canceled"
    await unfence(connection, day_of(envelope_id))
    await connection.close()


async def test_a_create_of_a_closed_day_is_refused(town: Town) -> None:
    """Known to be closed: before any money moves. Found out by the fence: refused too, and undone once that is gone."""
    today = business_date(town.clock.now())
    connection = await asyncpg.connect(town.set_dsn)
    await town.deposit("sender", 200)
    await fence(connection, today)
    args = town.create_args("sender", 100, 2, "one")
    for node in town.nodes:
        node.sweeper._after_s = 3600.0
    with pytest.raises(Refused) as refused:
        await ask_create(town, args)
    assert refused.value.code == "day_closed"
    assert await town.wallet.balance("sender") == 100
    for node in town.nodes:
        node.days.update(node.days.with_tables, {today})
    with pytest.raises(Refused) as refused:
        await ask_create(town, town.create_args("sender", 100, 2, "two"))
    assert refused.value.code == "day_closed"
    assert await town.wallet.balance("sender") == 100
    for node in town.nodes:
        node.days.update(node.days.with_tables, set())
        node.sweeper._after_s = 0.0
    # While the fence is up the sweeper neither fails nor passes the money by.
    assert (await town.nodes[0].sweeper.run_once()).undone == 0
    await unfence(connection, today)
    await connection.close()
    async with asyncio.timeout(20):
        while not await town.scalar("SELECT count(*) FROM claim WHERE kind = 'undone'"):
            await town.nodes[0].sweeper.run_once()
            await asyncio.sleep(0.05)


async def ask_create(town: Town, args: list) -> None:
    await town.caller.ask(town.owner(args[3][0]), Op.CREATE, args)


def header(day: date, at_ms: int) -> Terms:
    return Terms(
        envelope_id=make_id(day, 1, 7), sender="sender", kind=Kind.EQUAL, split=Split.EQUAL,
        split_version=SPLIT_VERSION, total_fen=100, count=1, greeting="", created_at_ms=at_ms,
        opens_at_ms=at_ms, expires_at_ms=at_ms + 86_400_000, seed=bytes(32), create_key=f"{day}",
        invited=None, password_mac=None,
    )  # fmt: skip


async def test_creates_of_other_days_go_in_beside_a_closed_one(town: Town) -> None:
    """One batch of headers spans a closed day, an open one and one without tables: only the open one's goes in."""
    today = business_date(town.clock.now())
    tomorrow, never = today + timedelta(days=1), today + timedelta(days=40)
    connection = await asyncpg.connect(town.set_dsn)
    await fence(connection, today)
    headers = {day: header(day, town.clock.now_ms()) for day in (today, tomorrow, never)}
    batch = [(terms, asyncio.get_running_loop().create_future()) for terms in headers.values()]
    written = await CreateQueue().write(connection, batch)
    await unfence(connection, today)
    await connection.execute("TRUNCATE envelope, due")
    await connection.close()
    assert written.written == {headers[tomorrow].envelope_id}
    assert written.closed == {headers[today].envelope_id}
    assert written.without_tables == {headers[never].envelope_id}
