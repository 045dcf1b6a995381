"""Two copies are equal or they are not: every kind of difference is found, in whole and in two parts."""

from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from errors import InvariantBroken
from moving import leaves
from moving.compare import compare, settle_old, total
from moving.limits import SETTLED_S
from schema.day_tables import DayTables
from schema.migrate import migrate_set
from sharding.ids import business_date, first_id

XX, SLOT = 7, 73
NOW = datetime.now(UTC).replace(microsecond=0)
OLD = NOW - timedelta(seconds=2 * SETTLED_S)
TODAY = business_date(NOW)
CLAIM, ENVELOPE, GUEST = (f"{names}_{TODAY:%d}" for names in ("db_07.claim_3", "db_07.envelope_3", "db_07.guest"))
SLOTS = list(range(70, 80))


class Pair:
    """The same rows in two databases: old and young claims, an envelope, a guest."""

    def __init__(self, source, target):
        self.source, self.target = source, target
        self.leaves = leaves.leaves_of(XX, [TODAY])

    async def both(self, query):
        for one in (self.source, self.target):
            await one.execute(query)

    async def compare(self, settled=None):
        return await compare(self.source, self.target, self.leaves, settled)

    async def settle(self):
        return await settle_old(self.source, self.target, self.leaves, SLOTS)


def claim(seq, at=OLD, fen=10, user=None):
    return (
        f"INSERT INTO claim VALUES ({first_id(TODAY) + 1_000 + SLOT}, {fen}, '{at}', {seq}, 99, {SLOT}, 'open', "
        f"'{user or f'user-{seq}'}')"
    )


@pytest.fixture
async def pair(databases):
    connections = []
    for _ in range(2):
        dsn = await databases.clone("set_empty", migrate_set)
        await DayTables(dsn, [XX]).ensure(TODAY, ahead_days=0)
        connections.append(await asyncpg.connect(dsn))
    one = Pair(*connections)
    expires = NOW + timedelta(days=1)
    await one.both(
        f"INSERT INTO envelope VALUES ({first_id(TODAY) + 1_000 + SLOT}, 990, '{OLD}', '{OLD}', '{expires}', "
        f"99, {SLOT}, 1, 'lucky', 'double_mean', false, 's', '{'00' * 32}', 'k', NULL, '')"
    )
    await one.both(f"INSERT INTO guest VALUES ({first_id(TODAY) + 1_000 + SLOT}, {SLOT}, 1, false, 'u')")
    for seq in range(20):
        await one.both(claim(seq, OLD if seq < 15 else NOW))
    yield one
    for connection in connections:
        await connection.close()


async def test_equal_copies_are_equal_in_whole_and_in_parts(pair):
    """The figures are those of all rows, however they were compared; only the old claims count as settled."""
    assert total(await pair.compare()) == {
        "envelopes": 1, "envelope_fen": 990, "claims": 20, "claim_fen": 200, "guests": 1,
    }  # fmt: skip
    settled = await pair.settle()
    assert sum(settled.rows.values()) == 16
    await pair.both(claim(20, NOW))
    assert total(await pair.compare(settled))["claims"] == 21


DIFFERENCES = {
    "an old row too few": f"DELETE FROM {CLAIM} WHERE seq = 3",
    "a young row too few": f"DELETE FROM {CLAIM} WHERE seq = 17",
    "an old row too many": claim(50),
    "a young row too many": claim(50, NOW),
    "an old row's fen": f"UPDATE {CLAIM} SET amount_fen = 11 WHERE seq = 3",
    "a young row's user": f"UPDATE {CLAIM} SET user_id = 'other' WHERE seq = 17",
    "two fen that cancel out": f"UPDATE {CLAIM} SET amount_fen = 2 * seq - 23 WHERE seq IN (16, 17)",
    "a guest's count": f"UPDATE {GUEST} SET wrong_tries = 2",
    "an envelope's seed": f"UPDATE {ENVELOPE} SET seed = '{'11' * 32}', created_at = now()",
    "an old row that became young": f"UPDATE {CLAIM} SET claimed_at = now() WHERE seq = 3",
}


@pytest.mark.parametrize("what", DIFFERENCES)
@pytest.mark.parametrize("side", ["source", "target"])
async def test_every_difference_is_found(pair, what, side):
    """On either side, and also when it came after the old rows were settled."""
    settled = await pair.settle()
    await pair.compare(settled)
    await getattr(pair, side).execute(DIFFERENCES[what])
    for found_equal in (settled, None):
        with pytest.raises(InvariantBroken, match="copies_are_equal"):
            await pair.compare(found_equal)


@pytest.mark.parametrize("what", ["an old row's user", "an old envelope's greeting"])
async def test_old_rows_that_differ_are_found_beforehand(pair, what):
    """What only the hash can see of an old row is seen when the old rows are settled."""
    table, column = (CLAIM, "user_id") if "user" in what else (ENVELOPE, "greeting")
    await pair.target.execute(f"UPDATE {table} SET {column} = 'other' WHERE ctid = (SELECT min(ctid) FROM {table})")
    with pytest.raises(InvariantBroken, match="old rows"):
        await pair.settle()


async def test_a_late_commit_with_an_early_instant_is_compared_in_whole(pair):
    """A row that comes to both sides after the settling, dated before it, is in the comparison all the same."""
    settled = await pair.settle()
    await pair.both(claim(60))
    assert total(await pair.compare(settled))["claims"] == 21
    await pair.source.execute(f"UPDATE {CLAIM} SET user_id = 'other' WHERE seq = 60")
    with pytest.raises(InvariantBroken):
        await pair.compare(settled)
