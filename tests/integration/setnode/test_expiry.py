"""Expiry: every envelope is closed once its time is up, whoever was down meanwhile, and the rest goes back exactly."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import asyncpg
import pytest

from runtime import sql
from runtime.postgres import Session
from setnode.actors import actor as actor_module
from setnode.partition_ranges import partition_ranges
from setnode.services import expiry as expiry_module
from setnode.services.expiry import Expiry, ExpiryConfig
from tests.clock import ManualClock
from tests.integration.setnode.fixtures import WAIT_S, Town, common_town, module_databases, shared_town
from wire.messages import Op

__all__ = ["common_town", "module_databases", "shared_town"]
pytestmark = pytest.mark.asyncio(loop_scope="module")
NEVER = ExpiryConfig(adopt_after_s=1e9)


def TOWN() -> dict:  # noqa: N802 - read by shared_town
    """The clock moves only when a test says so. Ahead of the wallet's, it makes every create in flight an old one."""
    return {"clock": ManualClock(datetime.now(UTC)), "sweep_after_s": 1e9}


@pytest.fixture
def town(common_town: Town) -> Town:
    return common_town


def at_rest(town: Town, patch: pytest.MonkeyPatch) -> None:
    """The services see nothing due until a test calls `due`."""
    for node in town.nodes:
        patch.setattr(node.expiry, "_owns", lambda _: False)
        patch.setattr(node.expiry, "config", NEVER)


@asynccontextmanager
async def by_hand(node, *, owns: bool = True, config: ExpiryConfig = NEVER) -> AsyncIterator[Expiry]:
    """A server's expiry that works only when a test says so; the one in the background never sees `owns`."""
    session = Session(node.settings.postgres_dsn)
    try:
        yield Expiry(session, node.registry, node.clock, lambda _: owns, config, owner_of=node.expiry._owner_of)
    finally:
        await session.close()


async def due(node, *, owns: bool = True, config: ExpiryConfig = NEVER):
    """One round of this server alone."""
    async with by_hand(node, owns=owns, config=config) as expiry:
        return await expiry.run_once()


async def closings(town: Town, envelope_ids: list[int]) -> dict[int, tuple[str, int]]:
    rows = await town.rows(
        "SELECT envelope_id, kind, amount_fen FROM claim WHERE kind <> 'open' AND envelope_id = ANY($1)", envelope_ids
    )
    return {row["envelope_id"]: (row["kind"], row["amount_fen"]) for row in rows}


async def all_forgotten(town: Town) -> None:
    async with asyncio.timeout(20):
        while await town.scalar("SELECT count(*) FROM due WHERE expires_at <= $1", town.clock.now()):
            await asyncio.sleep(0.02)


async def test_after_any_downtime_it_catches_up(town: Town, monkeypatch) -> None:
    """200 envelopes fell due while nobody looked: all are closed once, every sender has exactly his rest back."""
    with pytest.MonkeyPatch.context() as down:
        at_rest(town, down)
        envelope_ids = await asyncio.gather(
            *(town.create(100 + n, 5, sender=f"s{n}", expires_in_s=60) for n in range(200))
        )
        won = {n: (await town.open(envelope_ids[n], "early"))["amount_fen"] for n in range(0, 200, 10)}
        town.clock.advance(hours=30)
    await all_forgotten(town)
    closed = await closings(town, list(envelope_ids))
    assert closed == {one: ("expired", 100 + n - won.get(n, 0)) for n, one in enumerate(envelope_ids)}
    await town.paid_out()
    for n in (0, 7, 10, 199):
        assert await town.wallet.balance(f"s{n}") == 100 + n - won.get(n, 0)


async def test_a_late_open_and_the_close_never_both_take_the_rest(town: Town, monkeypatch) -> None:
    """Opens on both servers race the close of a third hand: the log stays dense, nobody wins after the close."""
    at_rest(town, monkeypatch)
    for n in range(15):
        envelope_id = await town.create(100, 10, sender=f"race{n}", expires_in_s=60)
        opening = [town.open(envelope_id, f"u{k}", node=town.nodes[k % 2]) for k in range(6)]
        opens = asyncio.gather(*opening)
        for _ in range(n % 5):
            await asyncio.sleep(0)
        town.clock.advance(seconds=61)
        rounds = asyncio.gather(*(due(node) for node in town.nodes))
        answers = await opens
        await rounds
        await due(town.nodes[0])
        won = sum(answer["amount_fen"] for answer in answers if answer["result"] == "opened")
        assert {answer["result"] for answer in answers} <= {"opened", "expired"}
        assert await closings(town, [envelope_id]) == {envelope_id: ("expired", 100 - won)}
        await town.paid_out()
        assert await town.wallet.balance(f"race{n}") == 100 - won


async def test_a_dead_owners_envelopes_are_closed_by_another(town: Town, monkeypatch) -> None:
    """Another server closes a dead owner's envelopes, and only adopt_after_s after they expired."""
    at_rest(town, monkeypatch)
    envelope_id = await town.create(100, 10, expires_in_s=60)
    other, patient = town.other(envelope_id), ExpiryConfig(adopt_after_s=5)
    monkeypatch.setattr(other.expiry, "_owner_of", lambda _: "set-1-gone")
    town.clock.advance(seconds=64)
    assert (await due(other, owns=False, config=patient)).closed == 0
    town.clock.advance(seconds=2)
    assert (await due(other, owns=False, config=patient)).closed == 1
    assert await closings(town, [envelope_id]) == {envelope_id: ("expired", 100)}
    assert (await town.open(envelope_id, "late"))["result"] == "expired"


async def test_a_living_owner_closes_its_own_however_late(town: Town, monkeypatch) -> None:
    """A backlog is no reason to close another server's envelopes; the owner's listening connection shows its life."""
    at_rest(town, monkeypatch)
    envelope_id = await town.create(100, 10, expires_in_s=60)
    other, patient = town.other(envelope_id), ExpiryConfig(adopt_after_s=5)
    town.clock.advance(hours=3)
    async with asyncio.timeout(WAIT_S):
        while await town.scalar("SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE '%:listen'") < 2:
            await asyncio.sleep(0.02)
    assert (await due(other, owns=False, config=patient)).closed == 0
    assert (await due(town.owner(envelope_id))).closed == 1


async def test_full_pages_follow_each_other_without_a_pause(town: Town, monkeypatch) -> None:
    """One round of a server ends with everything closed that was due, not after its first page."""
    at_rest(town, monkeypatch)
    node = town.nodes[0]
    envelope_ids = [await town.create(100, 2, sender=f"page{n}", expires_in_s=60) for n in range(12)]
    town.clock.advance(seconds=61)
    async with by_hand(node, config=ExpiryConfig(page=3, adopt_after_s=1e9)) as expiry:
        await expiry.run_round()
    assert len(await closings(town, envelope_ids)) == len(envelope_ids)


async def test_who_is_woken_only_to_be_closed_leaves_memory_again(town: Town, monkeypatch) -> None:
    """A day's end does not push the envelopes that users look at out of memory."""
    at_rest(town, monkeypatch)
    asleep, seen = [await town.create(100, 2, sender=f"memory{n}", expires_in_s=60) for n in range(2)]
    town.clock.advance(seconds=61)
    node = town.nodes[0]
    for actor in node.registry.actors():
        node.registry.forget(actor)
    await town.ask_detail(seen, node=node)
    assert (await due(node)).closed == 2
    assert (asleep in node.registry, seen in node.registry) == (False, True)
    assert await closings(town, [asleep, seen]) == dict.fromkeys((asleep, seen), ("expired", 100))


async def test_a_frozen_envelope_is_not_read_again_at_every_walk(town: Town, monkeypatch) -> None:
    """Woken to be closed and found broken, it stays in memory as frozen; once repaired and thawed it is closed."""
    at_rest(town, monkeypatch)
    broken = await town.create(100, 2, sender="broken", expires_in_s=60)
    split = await town.scalar("SELECT split FROM envelope WHERE envelope_id = $1", broken)
    change = "UPDATE envelope SET split = $1 WHERE envelope_id = $2"
    await town.scalar(change, "no_such_split", broken)
    town.clock.advance(seconds=61)
    node = town.nodes[0]
    for actor in node.registry.actors():
        node.registry.forget(actor)
    loads = []
    enqueue = node.loader.enqueue
    monkeypatch.setattr(node.loader, "enqueue", lambda actor: (loads.append(actor.envelope_id), enqueue(actor)))
    for _ in range(3):
        assert (await due(node)).unclosable == 1
    assert loads == [broken]
    await town.scalar(change, split, broken)
    monkeypatch.setattr(node.registry._actors[broken], "frozen_until", 0.0)
    assert (await due(node)).closed == 1


async def test_of_a_days_headers_only_the_due_ones_are_read(town: Town, monkeypatch) -> None:
    """What an expiry page costs follows from the page, not from how many envelopes its slots made that day."""
    at_rest(town, monkeypatch)
    made = [await town.create(100, 1, expires_in_s=60) for _ in range(60)]
    for envelope_id in made[:3]:
        await town.open(envelope_id, "winner")
    town.clock.advance(seconds=61)
    rows = await town.rows("SELECT envelope_id, expires_at FROM due WHERE envelope_id = ANY($1)", made[:6])
    ids, instants = [row["envelope_id"] for row in rows], [row["expires_at"] for row in rows]
    (part,) = partition_ranges(ids)
    query = "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) " + sql.read("setnode", "forget_final")
    connection = await asyncpg.connect(town.set_dsn, server_settings={"plan_cache_mode": "force_custom_plan"})
    transaction = connection.transaction()
    await transaction.start()
    try:
        plan = [row[0] for row in await connection.fetch(query, ids, instants, part.slots, part.low, part.end)]
    finally:
        await transaction.rollback()
        await connection.close()
    scans = [one for one in plan if " on envelope_" in one and "never executed" not in one]
    assert sum(float(one.partition("rows=")[2].split()[0]) for one in scans) == 3, plan
    monkeypatch.undo()
    await all_forgotten(town)


async def test_sold_out_and_canceled_envelopes_are_only_forgotten(town: Town, monkeypatch) -> None:
    """Nothing is left to close: the due row goes, the log stays as it is."""
    at_rest(town, monkeypatch)
    sold, canceled = [await town.create(100, 2, expires_in_s=60) for _ in range(2)]
    for user in "ab":
        await town.open(sold, user)
    await town.cancel(canceled, "sender")
    town.clock.advance(seconds=61)
    result = await due(town.nodes[0])
    assert (result.forgotten, result.closed) == (2, 0)
    assert await closings(town, [sold, canceled]) == {canceled: ("canceled", 100)}


@pytest.mark.parametrize("clock_first", [False, True])
async def test_a_cancel_after_the_hour_has_one_answer(town: Town, monkeypatch, clock_first) -> None:
    """The sender who cancels too late is shown the expiry, whoever closed it; repeats on both servers say the same."""
    at_rest(town, monkeypatch)
    envelope_id = await town.create(100, 4, expires_in_s=60)
    await town.open(envelope_id, "early")
    town.clock.advance(seconds=61)
    if clock_first:
        assert (await due(town.owner(envelope_id))).closed == 1
    first = await town.cancel(envelope_id, "sender")
    assert first["status"] == "expired"
    assert await closings(town, [envelope_id]) == {envelope_id: ("expired", first["refund_fen"])}
    elsewhere = await town.caller.ask(town.other(envelope_id), Op.CANCEL, [envelope_id, "sender"])
    assert [await town.cancel(envelope_id, "sender"), *elsewhere[:2]] == [first, first, True]


async def test_an_envelope_that_cannot_be_closed_now_stays_due(town: Town, monkeypatch) -> None:
    """Refused at the cap or frozen, it is tried again in the next round; nothing is forgotten."""
    at_rest(town, monkeypatch)
    envelope_id = await town.create(100, 2, expires_in_s=60)
    town.clock.advance(seconds=61)
    owner = town.owner(envelope_id)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner.claim_queue, "next_batch", lambda _: owner.claim_queue.on_rejected(_busy()))
        assert (await due(owner)).closed == 0
    assert await town.scalar("SELECT count(*) FROM due WHERE envelope_id = $1", envelope_id) == 1
    assert (await due(owner)).closed == 1


async def test_those_that_cannot_be_closed_hold_up_nobody(town: Town, monkeypatch) -> None:
    """A page full of frozen envelopes and of IDs that never were: the next is closed, an alarm counts, none is lost."""
    at_rest(town, monkeypatch)
    monkeypatch.setattr(actor_module, "FROZEN_S", 0.0)
    frozen = [await town.create(100, 2, sender=f"frozen{n}", expires_in_s=60) for n in range(3)]
    town.clock.advance(seconds=1)
    good = await town.create(100, 2, sender="good", expires_in_s=60)
    never = [2613320000000001007, frozen[0] + 1_000]
    await town.scalar("INSERT INTO due SELECT $1, unnest($2::bigint[])", town.clock.now(), never)
    split = await town.scalar("SELECT split FROM envelope WHERE envelope_id = $1", frozen[0])
    change = "UPDATE envelope SET split = $1 WHERE envelope_id = ANY($2)"
    await town.scalar(change, "no_such_split", frozen)
    node = town.nodes[0]
    node.registry.invalidate()
    config = ExpiryConfig(page=5, adopt_after_s=1e9, close_timeout_s=WAIT_S)
    town.clock.advance(seconds=61)
    async with by_hand(node, config=config) as expiry:
        for closed in (1, 0):
            result = await expiry.run_once()
            assert (result.seen, result.closed, result.unclosable) == (5, 0, 5)
            assert (await expiry.run_once()).closed == closed
            assert expiry_module._unclosable._value.get() == 5
        assert await closings(town, [good, *frozen]) == {good: ("expired", 100)}
        await town.scalar("DELETE FROM due WHERE envelope_id = ANY($1)", never)
        await town.scalar(change, split, frozen)
        assert (await expiry.run_once()).closed == 3
        assert expiry_module._unclosable._value.get() == 0
        assert await closings(town, frozen) == dict.fromkeys(frozen, ("expired", 100))


def _busy():
    from errors import Unavailable

    return Unavailable("busy", "no entry")
