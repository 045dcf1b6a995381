# ruff: noqa: E501 - one case a line reads best
"""When a business day is over, for rotation and for moves alike; and DDL that is retried while its tables are locked."""

import asyncpg
import pytest

from days import crash_points, finality
from days.lock import lock_days
from days.retry import LockRetry
from errors import Unavailable
from sharding.ids import make_id
from tests.integration.rotation.fixtures import DAY, NEXT, XXS, OldDays, hot_days, old_days, shared_days
from tests.integration.setnode.fixtures import module_databases

__all__ = ["hot_days", "module_databases", "old_days", "shared_days"]
SLOTS = finality.slots_of_all(XXS)


async def obstacles(days: OldDays, slots: list[int] = SLOTS) -> list[tuple[str, str]]:
    connection = await asyncpg.connect(days.set_access.dsn)
    wallet = await asyncpg.connect(days.set_access.wallet_dsn)
    try:
        return [(one.check, one.subject) for one in await finality.obstacles(connection, wallet, DAY, slots)]
    finally:
        await connection.close()
        await wallet.close()


IS = "= (SELECT min(envelope_id) FROM envelope e JOIN claim c USING (envelope_id) WHERE c.kind = 'expired' AND c.seq > 0)"


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("what", "change", "check"),
    [
        ("a log that has ended and adds up", "SELECT 1", None),
        ("a log without its closing row", f"DELETE FROM claim WHERE kind = 'expired' AND envelope_id {IS}", "envelope_open"),
        ("a log without a row", f"DELETE FROM claim WHERE envelope_id {IS}", "envelope_open"),
        ("a closed log that lacks a fen",
         f"UPDATE claim SET amount_fen = amount_fen - 1 WHERE kind = 'expired' AND envelope_id {IS}", "envelope_open"),
        ("a log that adds up and has not ended",
         f"UPDATE claim SET kind = 'open', user_id = 'nobody' WHERE kind = 'expired' AND seq + 1 < shares AND envelope_id {IS}",
         "envelope_open"),
        ("an envelope that is due", f"INSERT INTO due SELECT now(), envelope_id FROM envelope WHERE envelope_id {IS}", "due"),
    ],
)  # fmt: skip
async def test_a_day_is_over_when_every_log_has_ended_and_adds_up(hot_days: OldDays, what, change, check) -> None:
    """To the fen and to the last row, each by itself; what is in the way is named by the envelope."""
    envelope_id = await hot_days.scalar(f"SELECT envelope_id FROM envelope WHERE envelope_id {IS}")
    await hot_days.rows(change)
    assert await obstacles(hot_days) == ([] if check is None else [(check, str(envelope_id))]), what


@pytest.mark.asyncio(loop_scope="module")
async def test_only_the_slots_asked_for_count(hot_days: OldDays) -> None:
    """An open envelope, a stuck payout and money in escrow of another slot keep no day of these."""
    foreign = make_id(DAY, 5, 15)
    await hot_days.rows("DELETE FROM claim WHERE slot = 15 AND envelope_id < $1", make_id(NEXT, 0, 0))
    await hot_days.rows("INSERT INTO payout_stuck VALUES ($1, 0, 50, now(), 'refused')", foreign)
    await hot_days.rows("UPDATE account SET balance_fen = 3 WHERE name = $1", f"escrow:{DAY:%y%m%d}:015", wallet=True)
    assert await obstacles(hot_days, [slot for slot in SLOTS if slot != 15]) == []
    assert {check for check, _ in await obstacles(hot_days)} >= {"payout_stuck"}


async def test_ddl_that_gets_no_lock_names_the_process_that_holds_it(old_days: OldDays) -> None:
    """Retried for as long as it may be, then refused with the code of its user; nothing was done."""
    holder, tool = await asyncpg.connect(old_days.set_dsn), await asyncpg.connect(old_days.set_access.dsn)
    async with holder.transaction():
        await holder.execute("LOCK TABLE db_00.claim_3_28 IN ACCESS SHARE MODE")
        await tool.execute("SET lock_timeout = '20ms'")
        attempts = []

        async def work() -> None:
            attempts.append(1)
            await tool.execute("DROP TABLE db_00.claim_3_28")

        with pytest.raises(Unavailable) as locked:
            await LockRetry("some_code", patience_s=0.3).run(tool, work, tables=["db_00.claim_3_28"])
    assert len(attempts) > 1
    assert locked.value.code == "some_code"
    assert f"process {holder.get_server_pid()} " in locked.value.detail
    assert await old_days.scalar("SELECT to_regclass('db_00.claim_3_28') IS NOT NULL")
    await holder.close()
    await tool.close()


async def test_one_session_has_the_day_lock(old_days: OldDays) -> None:
    """Another one gets it when the first is gone; the same one may take it again."""
    first, second = await asyncpg.connect(old_days.set_dsn), await asyncpg.connect(old_days.set_dsn)
    assert await lock_days(first)
    assert await lock_days(first)
    assert not await lock_days(second, 0.2)
    await first.close()
    assert await lock_days(second)
    await second.close()


def test_a_crash_point_calls_what_is_armed_and_nothing_after() -> None:
    """In production nothing is armed."""
    passed: list[str] = []
    crash_points.reach("before")
    with crash_points.armed(passed.append):
        crash_points.reach("within")
    crash_points.reach("after")
    assert passed == ["within"]
