"""What is not ready is refused with a sentence that says what to do, and nothing is changed."""

import asyncio
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from archive.export import export_database
from archive.restore import remove, restore
from envelope.pseudonyms import new_pseudonym
from errors import HongbaoError, Refused, Unavailable
from runtime import postgres
from tests.conftest import Databases
from tests.integration.rotation.fixtures import ARCHIVE_KEY, DAY, NEXT, TODAY
from tests.integration.users.fixtures import ALICE, BY, AlicesPast, SealedBooks, books, past_in, past_of_alice
from users import forget as forgetting
from users import sessions
from users.forget import check, forget
from users.installed import Installed, SetPlace
from users.journal import Operator

__all__ = ["past_of_alice"]


@pytest.fixture
async def rich(databases: Databases, tmp_path: Path) -> AlicesPast:
    """As `past_of_alice`; 300 fen are left to her."""
    return await past_in(databases, tmp_path, books(left_fen=300))


async def dump(one: AlicesPast) -> dict[str, list[Any]]:
    """Every row of every table of ours that a user may stand in."""
    found = {}
    for name in ("envelope", "claim", "guest", "fund_set_apart", "day_register", "operation_log", "foreign_write"):
        found[name] = await one.days.rows(f"SELECT * FROM {name} ORDER BY 1, 2, 3, 4")
    for name in ("account", "transfer", "fund", "day_place", "forgetting", "forgotten", "forget_log"):
        order = "1, 2" if name == "forgotten" else "1, 2, 3"
        found[name] = await one.days.rows(f"SELECT * FROM {name} ORDER BY {order}", wallet=True)
    return found


async def refused(one: AlicesPast, user: str = ALICE, **options: Any) -> HongbaoError:
    """Return how it is refused, with every row as it was."""
    before = await dump(one)
    with pytest.raises(HongbaoError) as caught:
        await forget(one.installed, user, options.pop("by", BY), TODAY, **options)
    assert await dump(one) == before
    return caught.value


async def execute(one: AlicesPast, statement: str, *args: Any, wallet: bool = False) -> None:
    connection = await asyncpg.connect(one.days.wallet_dsn if wallet else one.days.set_dsn)
    try:
        await connection.execute("SET session_replication_role = replica")
        await connection.execute(statement, *args)
    finally:
        await connection.close()


async def test_a_balance_is_not_left_behind_unless_that_is_said(rich: AlicesPast) -> None:
    """300 fen refuse it; with `leave_balance` they stay under the pseudonym, and the audit holds."""
    error = await refused(rich)
    assert (error.code, "300 fen" in error.detail, "--leave-balance" in error.detail) == ("user_not_ready", True, True)
    await rich.note_money()
    done = await rich.forget(leave_balance=True)
    assert await rich.where(ALICE) == []
    assert await rich.violations() == []
    assert await rich.money() == rich.before
    left = await rich.days.scalar(
        "SELECT balance_fen FROM account WHERE name = $1", f"user:{done.pseudonym}", wallet=True
    )
    assert left == 300


async def test_open_envelopes_of_the_user(databases: Databases, tmp_path: Path) -> None:
    """Money of the user's own envelopes that is not paid out refuses it, by name."""
    made = SealedBooks()
    still_open = made.envelope(NEXT, ALICE, ["bob"], closed=False)
    made.settle(ALICE)
    one = await past_in(databases, tmp_path, made)
    error = await refused(one)
    assert error.code == "user_not_ready"
    assert str(still_open) in error.detail


@pytest.mark.parametrize("stuck", [False, True])
async def test_payouts_that_wait_or_are_stuck(past_of_alice: AlicesPast, *, stuck: bool) -> None:
    """A share of the user's whose payout is not over refuses it, and so does what is left of their envelopes."""
    one = past_of_alice
    for condition in (
        "user_id = $1",
        "user_id = '' AND envelope_id IN (SELECT envelope_id FROM envelope WHERE sender = $1)",
    ):
        envelope_id, seq = (
            await one.days.rows(f"SELECT envelope_id, seq FROM claim WHERE {condition} LIMIT 1", ALICE)
        )[0]
        if stuck:
            await execute(one, "INSERT INTO payout_stuck VALUES ($1, $2, 3, now(), 'refused', 0)", envelope_id, seq)
        else:
            await execute(
                one,
                "INSERT INTO payout_batch (created_at, server, envelope_ids, seqs) VALUES (now(), 'a', $1, $2)",
                [envelope_id], [seq],
            )  # fmt: skip
        error = await refused(one)
        assert (error.code, ("stuck" if stuck else "wait on") in error.detail) == ("user_not_ready", True)
        await execute(one, "DELETE FROM payout_batch; DELETE FROM payout_stuck")


async def test_events_that_name_the_user_are_delivered_first(past_of_alice: AlicesPast) -> None:
    """What waits for a receiver, and what was given up, would keep the name: both refuse it, with what to do."""
    one = past_of_alice
    await execute(one, "INSERT INTO event_sink (name, kind, address) VALUES ('app', 'webhook', 'https://app.example/')")
    await execute(
        one,
        "INSERT INTO event_log (what, envelope_ids, seqs, user_ids, amounts_fen) "
        "VALUES ('refunds', '{1}', '{0}', $1, '{5}')",
        [ALICE],
    )
    assert "hongbao events" in (await refused(one)).detail
    await execute(one, "DELETE FROM event_log")
    await execute(
        one,
        "INSERT INTO event_retry (sink, envelope_id, event_id, body, tries, reason) "
        "VALUES ('app', 1, '1.refunded', $1, 9, 'refused')",
        f'{{"data":{{"user":"{ALICE}"}}}}',
    )
    assert "redrive" in (await refused(one)).detail
    await execute(one, "DELETE FROM event_retry")
    await one.forget()
    assert await one.where(ALICE) == []


async def test_unknown_users_and_those_who_were_forgotten(past_of_alice: AlicesPast) -> None:
    """A name that stands nowhere is unknown; one that was forgotten is told with the day, and can be forgotten anew."""
    one = past_of_alice
    assert (await refused(one, "nobody")).code == "unknown_user"
    assert (await refused(one, new_pseudonym())).code == "unknown_user"
    with pytest.raises(Refused, match="no user"):
        await check(one.installed, "nobody")
    first = await one.forget()
    error = await refused(one)
    assert (error.code, str(TODAY) in error.detail) == ("already_forgotten", True)
    await execute(one, "INSERT INTO account (name, kind) VALUES ($1, 0)", f"user:{ALICE}", wallet=True)
    second = await one.forget()
    assert second.pseudonym != first.pseudonym
    assert await one.where(ALICE) == []


async def test_a_database_on_the_move(past_of_alice: AlicesPast) -> None:
    """An unfinished move refuses it, and so does one that is at work."""
    one = past_of_alice
    await execute(one, "INSERT INTO move (xx, kind, target, step) VALUES (1, 'live', 'set-2', 'copying')")
    error = await refused(one)
    assert (error.code, "db_01" in error.detail, "topology move" in error.detail) == ("user_not_ready", True, True)
    await execute(one, "DELETE FROM move")
    async with postgres.connected(one.installed.sets[0].owner_dsn) as rotating:
        await rotating.fetchval("SELECT pg_advisory_lock(hashtext('hongbao_rotation'))")
        assert (await refused(one)).code == "forget_busy"


async def test_a_table_that_another_holds(past_of_alice: AlicesPast, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock that is not to be had ends it in a sentence; what is begun is finished by the next run."""
    one = past_of_alice
    monkeypatch.setitem(sessions._SETTINGS, "lock_timeout", "100ms")
    async with postgres.connected(one.installed.sets[0].owner_dsn) as holder, holder.transaction():
        await holder.execute(f"LOCK TABLE claim_{NEXT:%Y%m%d} IN SHARE MODE")
        with pytest.raises(Unavailable, match="forget_waits"):
            await one.forget()
    await one.forget()
    assert await one.where(ALICE) == []


@pytest.mark.parametrize("away", ["set", "wallet"])
async def test_a_database_that_is_away(past_of_alice: AlicesPast, away: str) -> None:
    """Without all databases nothing is begun."""
    one, at = past_of_alice, past_of_alice.installed
    nowhere = "postgres://x@127.0.0.1:1/x"
    places = [*at.sets, SetPlace("set-2", nowhere, nowhere, lambda _: [])] if away == "set" else at.sets
    wallet = nowhere if away == "wallet" else at.wallet_owner_dsn
    one.installed = Installed(places, wallet, at.wallet_audit_dsn, at.archive, at.header_key)
    error = await refused(one)
    assert isinstance(error, Unavailable)
    one.installed = at


@pytest.mark.parametrize("killed", [False, True])
async def test_a_restored_copy(past_of_alice: AlicesPast, *, killed: bool) -> None:
    """A date that was put back for people, or half of it, has the name, too: removed as told, it is in nobody's way."""
    one = past_of_alice
    await one.take_to("verified")
    async with postgres.connected(one.installed.sets[0].owner_dsn) as connection:
        done = await restore(connection, one.installed.archive.folder, ARCHIVE_KEY, xx=0, day=DAY)
        if killed:
            await connection.execute(f"ALTER SCHEMA {done.schema} RENAME TO restoring_00_{DAY:%Y%m%d}")
        error = await refused(one)
        assert f"archive restore {DAY} db_00 --remove" in error.detail
        await remove(connection, xx=0, day=DAY)
    await one.forget()


async def test_an_export_that_was_interrupted(past_of_alice: AlicesPast) -> None:
    """Files that no register names yet have the name, too: the rotation is finished first."""
    one = past_of_alice
    await one.take_to("detached")
    async with postgres.connected(one.installed.sets[0].owner_dsn) as connection:
        await export_database(connection, one.installed.archive.folder, ARCHIVE_KEY, xx=0, day=DAY, proof=None)
    error = await refused(one)
    assert f"rotate run --date {DAY}" in error.detail


async def test_an_archive_that_is_not_what_the_register_names(past_of_alice: AlicesPast) -> None:
    """What cannot be read cannot be promised to be free of a name."""
    one = past_of_alice
    await one.take_to("dropped")
    where = one.installed.archive.folder / str(DAY) / "db_00"
    where.rename(where.with_name("away"))
    assert (await refused(one)).code == "archive_missing"
    where.with_name("away").rename(where)


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [("envelope", "greeting", "forged"), ("envelope", "header_seal", "0" * 32), ("fund", "header_hash", b"0" * 32)],
)
async def test_a_header_that_was_changed_by_hand_is_not_sealed_anew(
    past_of_alice: AlicesPast, table: str, column: str, value: Any
) -> None:
    """What does not fit its seal, or what was paid for, stays for the audit to find; put right, it is no obstacle."""
    one, wallet = past_of_alice, table == "fund"
    forged = await one.days.scalar("SELECT min(envelope_id) FROM envelope WHERE sender = $1", ALICE)
    select = f"SELECT {column} FROM {table} WHERE envelope_id = $1"
    update = f"UPDATE {table} SET {column} = $2 WHERE envelope_id = $1"
    true = await one.days.scalar(select, forged, wallet=wallet)
    await execute(one, update, forged, value, wallet=wallet)
    error = await refused(one)
    assert (error.code, str(forged) in error.detail, "audit" in error.detail) == ("user_not_ready", True, True)
    await execute(one, update, forged, true, wallet=wallet)
    await one.forget()
    assert await one.where(ALICE) == []


async def test_the_reason_may_not_keep_the_name(past_of_alice: AlicesPast) -> None:
    """What the operator writes into the logs is looked at first."""
    assert (await refused(past_of_alice, by=Operator("me", f"{ALICE} asked"))).code == "reason_names_user"
    assert (await refused(past_of_alice, "a", by=Operator("ada", "asked"))).code == "unknown_user"


async def test_check_changes_nothing(past_of_alice: AlicesPast) -> None:
    """`check` names every place and leaves every row; who does not confirm changes nothing either."""
    one = past_of_alice
    await one.take_to("verified")
    before = await dump(one)
    outlook = await check(one.installed, ALICE)
    assert outlook.in_the_way == []
    assert {day for _, day in outlook.found.tables} == {DAY, NEXT}
    assert {at.day for at, _ in outlook.found.archives} == {DAY}
    assert await dump(one) == before

    def deny(_: object) -> None:
        raise Refused("not_confirmed", "no")

    assert (await refused(one, confirm=deny)).code == "not_confirmed"


async def test_sets_that_are_slow_do_not_hold_the_ledger(
    past_of_alice: AlicesPast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While payouts are looked at no money moves, so they are looked at for a moment in all."""

    async def slow(*_: object) -> list[str]:
        await asyncio.sleep(60)
        return []

    monkeypatch.setattr(forgetting, "pending", slow)
    monkeypatch.setattr(forgetting, "STATEMENT_S", 0.2)
    error = await refused(past_of_alice)
    assert (error.code, isinstance(error, Unavailable)) == ("forget_waits", True)


async def test_a_command_that_is_stopped_gives_the_ledger_back(
    past_of_alice: AlicesPast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-Z, or its host is gone: Postgres ends its session, and money moves again."""
    asleep, awake = asyncio.Event(), asyncio.Event()

    async def stopped(*_: object) -> list[str]:
        asleep.set()
        await awake.wait()
        return []

    monkeypatch.setattr(forgetting, "pending", stopped)
    monkeypatch.setattr(forgetting, "STATEMENT_S", 60.0)
    monkeypatch.setattr(forgetting, "LEDGER_HELD_S", 1)
    forgets = asyncio.ensure_future(refused(past_of_alice))
    await asleep.wait()
    async with postgres.connected(past_of_alice.days.wallet_dsn) as another, asyncio.timeout(20):
        await another.execute("SELECT hold_ledger()")
    awake.set()
    assert (await forgets).code == "database_unavailable"
