"""Killed between any two steps, and run again, the command finishes."""

import signal

import pytest

from audit.report import Report
from errors import Unavailable
from installation.access import _forgot_meanwhile
from tests import forks
from tests.integration.rotation.fixtures import ARCHIVE_KEY, TODAY, XXS
from tests.integration.users.fixtures import ALICE, AlicesPast, past_of_alice
from tests.integration.users.forget_and_die import forget_and_die

__all__ = ["past_of_alice"]


async def kill_at(one: AlicesPast, point: str, nth: int) -> int:
    place, at = one.installed.sets[0], one.installed
    told = {
        "set": [place.owner_dsn, place.audit_dsn], "wallet": [at.wallet_owner_dsn, at.wallet_audit_dsn],
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
    report = Report()
    with pytest.raises(Unavailable, match="user_being_forgotten"):
        await _forgot_meanwhile(one.installed.wallet_audit_dsn, report)
    await one.forget()
    report.seconds = 60.0
    assert await _forgot_meanwhile(one.installed.wallet_audit_dsn, report)
    report.seconds = -60.0
    assert not await _forgot_meanwhile(one.installed.wallet_audit_dsn, report)
