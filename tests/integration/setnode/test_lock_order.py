"""Two servers of a SET write the same envelopes in a failover: neither may hold what the other waits for."""

import asyncio
from functools import partial

import asyncpg

from setnode.actors.batch import ClaimBatch
from setnode.commit.store import append_claims
from sharding.ids import make_id
from tests.conftest import Databases
from tests.integration.setnode.fixtures import build_set

ROUNDS = 12
"""Which of the two goes on first is Postgres' choice; in every second round a wrong order ends in a deadlock."""
WAITING = """SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event_type = 'Lock'"""


async def test_two_servers_never_wait_for_each_other(databases: Databases) -> None:
    """One writes strictly, one contended, in one order: each envelope goes to one of them, and none is a victim."""
    dsn = await databases.clone("set", partial(build_set, databases.day))
    # By ID the first comes first, by (slot, ID) the second.
    envelope_ids = [make_id(databases.day, 1, 7), make_id(databases.day, 2, 3)]
    one, two, third, looking = [await asyncpg.connect(dsn) for _ in range(4)]

    def batch(seq: int, user: str, ids: list[int]) -> ClaimBatch:
        made = ClaimBatch(1_700_000_000_000)
        made.actors = [None] * len(ids)
        made.claims = [(envelope_id, seq, 100, "open", user, 5) for envelope_id in ids]
        return made

    for seq in range(ROUNDS):
        holds = third.transaction()
        await holds.start()
        # Both servers stop at the envelope that is first by (slot, ID), or one does with the other in its hand.
        await append_claims(third, batch(seq, f"third-{seq}", envelope_ids[1:]), "c", [])
        writing = [
            asyncio.ensure_future(append_claims(one, batch(seq, f"one-{seq}", envelope_ids), "a", [])),
            asyncio.ensure_future(append_claims(two, batch(seq, f"two-{seq}", envelope_ids), "b", [envelope_ids[0]])),
        ]
        async with asyncio.timeout(20):
            while await looking.fetchval(WAITING) < 2:
                await asyncio.sleep(0.002)
        await holds.rollback()
        refused = [written.refused for written in await asyncio.gather(*writing)]
        assert sorted(refused, key=len) == [frozenset(), frozenset(envelope_ids)]
    for connection in (one, two, third, looking):
        await connection.close()
