"""Waking envelopes: made-up IDs cost those who made them up, and a query opens no table that it does not need."""

import asyncio
import gc
import random
import time
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from errors import Unavailable
from runtime import sql
from schema import roles
from schema.day_tables import DayTables
from setnode.activation import loader
from setnode.activation.log_rows import ALL_SHARES
from setnode.limits import LOAD_READS
from setnode.service import Setnode
from sharding.ids import SERIALS, business_date, day_of, end_id, first_id, make_id, slot_of
from tests.integration.setnode.fixtures import SMALL, XXS, Town, common_town, module_databases, shared_town, told
from wire.messages import Op

__all__ = ["common_town", "module_databases", "shared_town"]
pytestmark = pytest.mark.asyncio(loop_scope="module")

CROWD = 5_000
SLOTS = SMALL.slots
FEW_SLOTS = 5
"""Slots of one query here, so that a town's few slots need many queries."""


class Counting:
    """The loader's connection: notes each statement, and what was asked in a query."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.log: list[tuple[str, Any]] = []

    async def fetch(self, query: str, *args: Any) -> list[Any]:
        kind = "register" if "day_register" in query else "read" if args else "look"
        self.log.append((kind, set(args[0]) if kind == "read" else None))
        return await self._connection.fetch(query, *args)

    async def execute(self, query: str) -> str:
        self.log.append(("seal", None))
        return await self._connection.execute(query)

    def count(self) -> Counter[str]:
        return Counter(kind for kind, _ in self.log)

    def before(self, envelope_id: int) -> int:
        """How many statements were sent before the one that read this envelope."""
        return next(at for at, (_, ids) in enumerate(self.log) if ids and envelope_id in ids)


@pytest.fixture
def town(common_town: Town) -> Town:
    return common_town


def watch(node: Setnode, patch: pytest.MonkeyPatch) -> Counting:
    session = node.loader._session
    counting = Counting(None)
    use = session.use

    async def counted() -> Counting:
        counting._connection = await use()
        return counting

    patch.setattr(session, "use", counted)
    # It is the connection inside that has looked which Postgres answers.
    check = node.loader._check
    patch.setattr(node.loader, "_check", lambda seen: check(seen._connection))
    return counting


def made_up(days: list[date], number: int) -> list[int]:
    chance = random.Random(2611)
    return [make_id(chance.choice(days), chance.randrange(SERIALS), chance.randrange(SLOTS)) for _ in range(number)]


async def crowd_then_one(town: Town, days: list[date], patch: pytest.MonkeyPatch) -> tuple[Counting, int]:
    """5,000 made-up IDs arrive at a server, then somebody opens a real envelope that sleeps there."""
    envelope_id = await town.create(1_000, 10)
    node = town.other(envelope_id)
    counting = watch(node, patch)
    crowd = [town.open(one, "guesser", node=node) for one in made_up(days, CROWD)]
    *strangers, real = await asyncio.gather(*crowd, town.open(envelope_id, "somebody", node=node))
    assert {answer["result"] for answer in strangers} == {"not_found"}
    assert real["result"] == "opened"
    assert len(node.registry) < CROWD
    return counting, envelope_id


async def test_ids_of_days_without_tables_cost_one_look_for_all(town: Town, monkeypatch) -> None:
    """5,000 IDs over 1,000 past days: one look at the catalog, and the real envelope is the first that is read."""
    today = business_date(datetime.now(UTC))
    counting, _ = await crowd_then_one(town, [today - timedelta(days=n) for n in range(40, 1_040)], monkeypatch)
    assert counting.count()["look"] <= 2
    assert counting.count()["register"] <= 2
    assert counting.count()["read"] == counting.count()["seal"] == 1


async def test_ids_of_past_days_do_not_starve_a_real_envelope(town: Town, monkeypatch) -> None:
    """5,000 IDs over three days and all slots: they share few queries, and the real one waits for one round of them."""
    today = business_date(datetime.now(UTC))
    past = [today - timedelta(days=n) for n in (1, 2, 3)]
    for day in past:
        await DayTables(town.set_dsn, XXS).ensure(day, ahead_days=0)
    monkeypatch.setattr(loader, "LOAD_SLOTS", FEW_SLOTS)
    counting, envelope_id = await crowd_then_one(town, past, monkeypatch)
    queries_needed = len(past) * -(-SLOTS // FEW_SLOTS) + 1
    assert counting.count()["read"] <= queries_needed
    assert counting.count()["seal"] <= -(-queries_needed // LOAD_READS) + 1
    assert counting.before(envelope_id) <= 2 * (LOAD_READS + 3)
    assert counting.count()["register"] <= counting.count()["seal"] + 2


async def test_a_day_whose_tables_have_just_been_made_is_found(town: Town, monkeypatch) -> None:
    """What the loader knows of the days is never a reason to deny an envelope: it looks before it says so."""
    for one in town.nodes:
        monkeypatch.setattr(one.days, "is_near", lambda _: True)
    day = business_date(datetime.now(UTC)) + timedelta(days=6)
    args = town.create_args("early", 1_000, 5, "early")
    await town.deposit("early", 1_000)
    args[3] = [make_id(day, n, slot_of(one)) for n, one in enumerate(args[3])]
    envelope_id = args[3][0]
    node = town.other(envelope_id)
    assert (await town.open(envelope_id, "a", node=node))["result"] == "not_found"
    await DayTables(town.set_dsn, XXS).ensure(day, ahead_days=0)
    await town.caller.ask(town.owner(envelope_id), Op.CREATE, args)
    assert (await town.open(envelope_id, "a", node=node))["result"] == "opened"


async def test_a_query_opens_only_the_leaves_of_its_day_and_slots(town: Town) -> None:
    """The plan names no other leaf, and for each envelope's claims runs only one."""
    envelope_ids = [await town.create(100, 2) for _ in range(8)]
    for envelope_id in envelope_ids:
        await town.open(envelope_id, "a")
    day, slots = day_of(envelope_ids[0]), sorted(set(map(slot_of, envelope_ids)))
    assert town.databases is not None
    connection = await asyncpg.connect(
        town.databases.dsn_as(town.set_dsn, roles.SETNODE), server_settings={"plan_cache_mode": "force_custom_plan"}
    )
    try:
        rows = await connection.fetch(
            "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) " + sql.read("setnode", "load_envelopes"),
            envelope_ids, slots, first_id(day), end_id(day), ALL_SHARES,
        )  # fmt: skip
    finally:
        await connection.close()
    scans = [row[0] for row in rows if " on " in row[0] and "Scan" in row[0]]
    allowed = {f"_{slot % 10}_{day.day:02d} " for slot in slots}
    assert len([one for one in scans if " on envelope_" in one]) == len(slots)
    assert all(any(leaf in one for leaf in allowed) for one in scans if " on guest_" not in one), scans
    claims = [one for one in scans if " on claim_" in one and "never executed" not in one]
    loops = [int(one.partition("loops=")[2].rstrip(")")) for one in claims]
    assert sum(loops) == len(envelope_ids), claims


async def crowd_of(town: Town, envelopes: int, shares: int) -> list[int]:
    """So many sold out envelopes of one slot, as copies of one, which no actor holds."""
    made = await town.create(10 * shares, shares)
    for begin in range(0, shares, 100):
        await asyncio.gather(*(town.open(made, f"u{n}") for n in range(begin, min(begin + 100, shares))))
    await town.paid_out()
    header = (
        "total_fen, created_at, opens_at, expires_at, shares, slot, split_version, kind, split, named, sender, seed"
    )
    await town.scalar(
        f"INSERT INTO envelope (envelope_id, create_key, greeting, {header}) SELECT envelope_id + 1000 * n, '', '', "
        f"{header} FROM envelope, generate_series(1, $2) n WHERE envelope_id = $1",
        made,
        envelopes,
    )
    claim = "amount_fen, claimed_at, seq, shares, slot, kind, user_id"
    await town.scalar(
        f"INSERT INTO claim (envelope_id, {claim}) SELECT envelope_id + 1000 * n, {claim} "
        "FROM claim, generate_series(1, $2) n WHERE envelope_id = $1",
        made,
        envelopes,
    )
    return [made + 1000 * (n + 1) for n in range(envelopes)]


async def test_the_loop_never_stands_still_while_large_envelopes_wake(town: Town) -> None:
    """500 envelopes of 500 shares at once: between two turns of the loop this process never computes for 50 ms."""
    node = town.nodes[0]
    envelope_ids = await crowd_of(town, 500, 500)
    longest, done = 0.0, asyncio.Event()

    async def watch() -> None:
        nonlocal longest
        while not done.is_set():
            before = time.thread_time()
            await asyncio.sleep(0.001)
            longest = max(longest, time.thread_time() - before)

    gc.collect()
    watching = asyncio.ensure_future(watch())
    args = [[envelope_id, "stranger", True] for envelope_id in envelope_ids]
    waiting = [town.caller.ask(node, Op.GRAB, each) for each in args]
    answers = await asyncio.gather(*waiting, return_exceptions=True)
    done.set()
    await watching
    ids = "envelope_id = ANY($1)"
    await town.scalar(f"DELETE FROM claim WHERE {ids}", envelope_ids)
    await town.scalar(f"DELETE FROM envelope WHERE {ids}", envelope_ids)
    assert longest < 0.05
    # Those that waited longer than STALE_S hear that they may come again, and that nothing was done; nobody hears else.
    heard = Counter(told(answer)["result"] if isinstance(answer, list) else answer.code for answer in answers)
    assert heard.keys() <= {"sold_out", "busy", "database_unavailable"}
    assert heard["sold_out"] > 100
    assert all(answer.outcome_known for answer in answers if isinstance(answer, Unavailable))


async def test_a_round_is_cut_by_the_shares_of_its_envelopes(town: Town, monkeypatch) -> None:
    """What does not fit is read by later rounds; everybody is answered, also for IDs that never were."""
    monkeypatch.setattr(loader, "LOAD_SHARES", 30)
    envelope_ids = await asyncio.gather(*(town.create(100, 10, sender=f"cut{n}") for n in range(20)))
    node = town.nodes[0]
    node.registry._actors.clear()
    node.registry._weights.clear()
    node.registry.weight = 0
    counting = watch(node, monkeypatch)
    asked = [*envelope_ids, *(one + 1_000 for one in envelope_ids)]
    answers = await asyncio.gather(*(town.open(one, "a", node=node) for one in asked))
    assert [answer["result"] for answer in answers] == ["opened"] * 20 + ["not_found"] * 20
    assert counting.count()["seal"] >= 20 * 10 / 40
