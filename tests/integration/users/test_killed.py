"""Killed between any two steps, and run again, the command finishes."""

import signal

import pytest

from audit.report import Report
from errors import Refused, Unavailable
from installation.auditing import forgot_meanwhile
from runtime import postgres
from schema import roles
from schema.migrate import migrate_set
from tests import forks
from tests.integration.rotation.fixtures import ARCHIVE_KEY, DAY, TODAY, XXS
from tests.integration.users.fixtures import ALICE, AlicesPast, past_of_alice
from tests.integration.users.forget_and_die import forget_and_die
from users.export import Export
from users.installed import Installed, SetPlace

pytestmark = pytest.mark.long

__all__ = ["past_of_alice"]


async def kill_at(one: AlicesPast, point: str, nth: int) -> int:
    at = one.installed
    told = {
        "sets": [(place.name, place.owner_dsn, place.audit_dsn) for place in at.sets],
        "wallet": [at.wallet_owner_dsn, at.wallet_audit_dsn],
        "folder": str(at.archive.folder), "archive_key": ARCHIVE_KEY.decode(), "slots": 10 * len(XXS), "user": ALICE,
        "today": str(TODAY), "point": point, "nth": nth,
    }  # fmt: skip
    return (await forks.run(forget_and_die, told, timeout_s=60)).status


@pytest.mark.parametrize(
    ("state", "point", "nth"),
    [
        ("hot", "begun", 1),
        ("hot", "hashed", 1),
        ("verified", "published", 1),
        ("verified", "written", 1),
        ("dropped", "published", 2),
        ("dropped", "written", 3),
    ],
)
async def test_killed_and_run_again_it_completes(past_of_alice: AlicesPast, state: str, point: str, nth: int) -> None:
    """After SIGKILL at any point the next run replaces what is left, under the same pseudonym, and no fen moved."""
    one = past_of_alice
    await one.take_to(state)
    await one.note_money()
    assert await kill_at(one, point, nth) == -signal.SIGKILL
    assert await one.where(ALICE), "half of it was done"
    begun = await one.days.scalar("SELECT pseudonym FROM forgetting", wallet=True)
    assert await one.days.scalar("SELECT name FROM forgetting", wallet=True) == ALICE
    done = await one.forget()
    assert done.pseudonym == begun
    assert await one.where(ALICE) == []
    assert await one.violations() == []
    assert await one.money() == one.before
    assert await one.days.scalar("SELECT count(*) FROM forgetting", wallet=True) == 0


async def test_the_audit_says_that_a_user_is_being_forgotten(past_of_alice: AlicesPast) -> None:
    """While the names on two sides differ it proves nothing, says so, and is made again once that is over."""
    one = past_of_alice
    assert await kill_at(one, "hashed", 1) == -signal.SIGKILL
    assert await one.violations(), "names differ"
    with pytest.raises(Refused, match="user_being_forgotten"):
        await anext(Export(one.installed, ALICE).records())
    report = Report()
    with pytest.raises(Unavailable, match="user_being_forgotten"):
        await forgot_meanwhile(one.installed.wallet_audit_dsn, report.seconds)
    await one.forget()
    report.seconds = 60.0
    assert await forgot_meanwhile(one.installed.wallet_audit_dsn, report.seconds)
    report.seconds = -60.0
    assert not await forgot_meanwhile(one.installed.wallet_audit_dsn, report.seconds)


async def test_two_sets_name_the_same_archive(past_of_alice: AlicesPast) -> None:
    """After a move both registers do: killed between their commits, the next run has the other one follow."""
    one = past_of_alice
    await one.take_to("dropped")
    other = await one.days.databases.clone("empty_set", migrate_set)
    owner, audit = (one.days.databases.dsn_as(other, role) for role in (roles.OWNER, roles.AUDIT))
    rows = await one.days.rows("SELECT * FROM day_register WHERE day = $1", DAY)
    async with postgres.connected(owner) as connection:
        await connection.copy_records_to_table("day_register", records=[tuple(row) for row in rows])
    at = one.installed
    second = SetPlace("set-2", owner, audit, lambda _: [])
    one.installed = Installed([*at.sets, second], at.wallet_owner_dsn, at.wallet_audit_dsn, at.archive, at.header_key)
    # The first commit is that of the hot day, the second that of one SET for the first archive.
    assert await kill_at(one, "committed", 2) == -signal.SIGKILL
    await one.forget()
    digests = "SELECT xx, manifest_sha256 FROM day_register ORDER BY 1"
    async with postgres.connected(owner) as connection:
        assert [tuple(row) for row in await connection.fetch(digests)] == [
            tuple(row) for row in await one.days.rows(digests)
        ]
    assert await one.where(ALICE) == []
