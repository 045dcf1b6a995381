"""Envelopes past their end that nobody closes: named once their SET has gone on without them."""

from datetime import timedelta

import pytest

from audit.one import prove_one
from audit.proof import LATE_S, AuditTarget
from schema import roles
from sharding.ids import make_id
from tests.integration.rotation.fixtures import NEXT, OldDays, old_days

__all__ = ["old_days"]

OVERDUE = "envelope_is_closed_in_time"
WRITTEN = """
UPDATE claim SET claimed_at = now() - $1::interval WHERE envelope_id =
    (SELECT max(envelope_id) FROM claim WHERE kind = 'expired' AND envelope_id >= $2) AND kind = 'expired'
"""
"""An envelope of NEXT was closed by expiry so long ago."""


async def written(old_days: OldDays, seconds_ago: float) -> None:
    await old_days.rows(WRITTEN, timedelta(seconds=seconds_ago), make_id(NEXT, 0, 0))


async def test_a_set_that_stood_still_has_nothing_overdue(old_days: OldDays) -> None:
    """Stopped, paused or restored to before: what ended months ago is open, and nothing was written since.

    Nor while it catches up: it is at work for less than LATE_S.
    """
    assert await old_days.scalar("SELECT count(*) FROM due WHERE expires_at < now() - interval '10 days'") == 5
    assert await old_days.violations() == []
    await written(old_days, LATE_S - 60)
    assert await old_days.violations() == []


@pytest.mark.parametrize("seal", ["as it was", "edited"])
async def test_what_a_working_set_has_not_closed_is_named(old_days: OldDays, seal: str) -> None:
    """Each open envelope, with the fen that are not refunded; also one that froze because its seal was edited."""
    await written(old_days, LATE_S + 60)
    if seal == "edited":
        await old_days.rows(
            "UPDATE envelope SET header_seal = repeat('ab', 16) WHERE envelope_id >= $1", make_id(NEXT, 0, 0)
        )
    left = dict(await old_days.rows(
        "SELECT envelope_id::text, left_fen FROM fund WHERE left_fen > 0", wallet=True
    ))  # fmt: skip
    found = await old_days.violations()
    assert {one.check for one in found} == {OVERDUE}
    assert {one.subject: one.fen for one in found} == left
    assert len(left) == 5
    own, wallet = (old_days.databases.dsn_as(dsn, roles.AUDIT) for dsn in (old_days.set_dsn, old_days.wallet_dsn))
    one = await prove_one(AuditTarget("set-1", own, range(20)), wallet, int(min(left)), None)
    assert [violation.check for violation in one.report.violations] == [OVERDUE]
