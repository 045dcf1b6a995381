# ruff: noqa: E501, ISC004 - one case a line reads best
"""The way of one day: what moves it on, what keeps it where it is, and that the database itself holds the line."""

from datetime import timedelta

import asyncpg
import pytest

from errors import Refused
from rotation.fence import fence
from rotation.register import Operator
from rotation.steps import DayUnproven
from schema import roles
from schema.day_tables import DayTables, known_days
from sharding.ids import make_id
from tests.integration.rotation.fixtures import BY, DAY, NEXT, TODAY, OldDays, hot_days, old_days, shared_days
from tests.integration.setnode.fixtures import module_databases

__all__ = ["hot_days", "module_databases", "old_days", "shared_days"]


async def test_a_day_goes_all_the_way(old_days: OldDays) -> None:
    """Closed, detached, exported, verified: the hot tables know nothing of it, its own have every row, next month's names are free."""
    before = [tuple(row) for row in await old_days.rows(f"SELECT * FROM claim_{DAY:%Y%m%d} ORDER BY envelope_id, seq")]
    result = await old_days.rotation.run(DAY, TODAY, BY)
    assert {xx: state.value for xx, state in result.states.items()} == {0: "verified", 1: "verified"}
    assert [
        tuple(row) for row in await old_days.rows(f"SELECT * FROM claim_{DAY:%Y%m%d} ORDER BY envelope_id, seq")
    ] == before
    assert before
    low = make_id(DAY, 0, 0)
    assert await old_days.scalar("SELECT count(*) FROM claim WHERE envelope_id < $1", make_id(NEXT, 0, 0)) == 0
    sums = await old_days.rows("SELECT * FROM day_register ORDER BY xx")
    assert sum(row["claims"] for row in sums) == len(before)
    assert all(row["paid_in_fen"] == row["claimed_fen"] + row["refunded_fen"] for row in sums)
    assert await old_days.lines() == sorted(["closed", "detached", "exported", "verified"] * 2)
    proof = await old_days.scalar("SELECT proof FROM operation_log WHERE what = 'closed' AND xx = 0")
    assert '"paid_in_fen"' in proof
    for name in (roles.SETNODE, roles.AUDIT):
        connection = await asyncpg.connect(old_days.databases.dsn_as(old_days.set_dsn, name))
        assert await connection.fetchval(
            f"SELECT count(*) FROM claim_{DAY:%Y%m%d} WHERE envelope_id >= $1", low
        ) == len(before)
        await connection.close()
    again = DAY + timedelta(days=28)
    assert await DayTables(old_days.set_dsn, (0, 1)).ensure(again, ahead_days=0) == [again]
    assert await old_days.violations() == []


async def test_twice_is_once(old_days: OldDays) -> None:
    """A second run finds everything done and does nothing."""
    assert await old_days.run() == await old_days.run() == {0: "verified", 1: "verified"}
    assert old_days.archive.exports == 2
    assert len(await old_days.lines()) == 8


IN_THE_WAY = [
    ("an open envelope", "envelope_open", ["DELETE FROM claim WHERE envelope_id = {id} AND kind = 'expired'"], []),
    ("a due row", "due", ["INSERT INTO due VALUES (now(), {id})"], []),
    ("an unpaid payout", "payout_waits",
     ["INSERT INTO payout_batch (created_at, server, envelope_ids, seqs) VALUES (now(), 's', '{{{id}}}', '{{0}}')"], []),
    ("a stuck payout", "payout_stuck", ["INSERT INTO payout_stuck VALUES ({id}, 0, 50, now(), 'refused')"], []),
    ("a credit that is missing", "claim_unpaid", [], ["DELETE FROM transfer WHERE order_no = '{id}.0'"]),
    ("a credit of another amount", "credit_matches_claim", [],
     ["UPDATE transfer SET amount_fen = amount_fen + 1 WHERE order_no = '{id}.0'"]),
    ("a credit to somebody else", "credit_matches_claim", [],
     ["UPDATE transfer SET user_account = (SELECT account_id FROM account WHERE name LIKE 'user:user%' LIMIT 1) "
      "WHERE order_no = (SELECT order_no FROM transfer WHERE envelope_id = {id} AND kind = 3)"]),
    ("a credit too many", "credit_has_claim", [],
     ["INSERT INTO transfer (debit_account, credit_account, user_account, amount_fen, envelope_id, kind, order_no) SELECT "
      "debit_account, credit_account, user_account, 1, envelope_id, 2, '{id}.999' FROM transfer WHERE order_no = '{id}.0'"]),
    ("a fund that is missing", "envelope_has_fund", [], ["DELETE FROM fund WHERE envelope_id = {id}"]),
    ("a fund without an envelope", "fund_has_envelope", ["DELETE FROM claim WHERE envelope_id = {id}",
     "DELETE FROM envelope WHERE envelope_id = {id}"], ["DELETE FROM transfer WHERE envelope_id = {id} AND kind IN (2, 3)"]),
    ("a young fund without an envelope", "fund_without_envelope", ["DELETE FROM claim WHERE envelope_id = {id}",
     "DELETE FROM envelope WHERE envelope_id = {id}"], ["DELETE FROM transfer WHERE envelope_id = {id} AND kind IN (2, 3)",
     "UPDATE fund SET created_at = now() WHERE envelope_id = {id}"]),
    ("three fen in escrow", "escrow_not_zero", [], ["UPDATE account SET balance_fen = 3 WHERE name = '{escrow}'"]),
    ("an edited claim", "amount_follows_seed",
     ["UPDATE claim SET amount_fen = amount_fen + CASE seq WHEN 0 THEN 1 ELSE -1 END WHERE envelope_id = {id} AND "
     "(seq = 0 OR kind = 'expired')"], []),
]  # fmt: skip


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(("what", "check", "in_set", "in_wallet"), IN_THE_WAY, ids=[one[0] for one in IN_THE_WAY])
async def test_what_stands_in_the_way_is_named_and_nothing_changes(
    hot_days: OldDays, what, check, in_set, in_wallet
) -> None:
    """A day that owes something stays hot, unfenced and unregistered, and says what it owes."""
    row = await hot_days.rows(
        "SELECT envelope_id FROM claim c WHERE envelope_id < $1 AND kind = 'expired' AND seq > 0 LIMIT 1",
        make_id(NEXT, 0, 0),
    )
    envelope_id = row[0]["envelope_id"]
    words = {"id": envelope_id, "escrow": f"escrow:{DAY:%y%m%d}:{envelope_id % 1000:03d}"}
    for statement in in_set:
        await hot_days.rows(statement.format(**words))
    for statement in in_wallet:
        await hot_days.rows(statement.format(**words), wallet=True)
    with pytest.raises(DayUnproven) as unproven:
        await hot_days.run()
    assert check in {one.check for one in unproven.value.obstacles}
    assert unproven.value.code == "day_unproven"
    assert await hot_days.states() == {}
    assert await hot_days.scalar("SELECT count(*) FROM pg_trigger WHERE tgname = 'day_fence'") == 0
    connection = await asyncpg.connect(hot_days.set_dsn)
    assert DAY in await known_days(connection)
    await connection.close()


async def test_what_a_look_finds_spares_the_proof(old_days: OldDays, monkeypatch: pytest.MonkeyPatch) -> None:
    """A day with one stuck payout is not replayed, envelope by envelope, at every round until somebody pays it."""

    async def never(*_: object) -> None:
        raise AssertionError("the day was proven")

    monkeypatch.setattr("rotation.steps.prove", never)
    await old_days.rows("INSERT INTO payout_stuck VALUES ($1, 0, 50, now(), 'refused')", make_id(DAY, 5, 3))
    with pytest.raises(DayUnproven) as unproven:
        await old_days.run()
    assert {one.check for one in unproven.value.obstacles} == {"payout_stuck"}


async def test_what_waits_of_another_sets_database_keeps_no_day_here(old_days: OldDays) -> None:
    """A stuck payout that a database left behind when it moved away is not this SET's to pay."""
    foreign = make_id(DAY, 5, 75)
    await old_days.rows("INSERT INTO payout_stuck VALUES ($1, 0, 50, now(), 'refused')", foreign)
    assert await old_days.run() == {0: "verified", 1: "verified"}


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("day", "today", "code"),
    [
        (NEXT, NEXT + timedelta(days=1), "day_too_young"),
        (NEXT, NEXT, "day_too_young"),
        (DAY - timedelta(days=40), TODAY, "day_unknown"),
        (NEXT, TODAY, "day_unproven"),
    ],
)
async def test_days_that_cannot_go_are_refused(hot_days: OldDays, day, today, code) -> None:
    """Too young, unknown or with open envelopes: a clear code, and nothing is changed."""
    with pytest.raises(Refused) as refused:
        await hot_days.run(day, today)
    assert refused.value.code == code
    assert await hot_days.states(day) == {}


async def test_an_operator_has_a_name_and_a_reason() -> None:
    """What the log must hold is asked before anything is done."""
    for who, reason in (("", "why"), ("me", " "), ("m" * 65, "why"), ("me", "w" * 201)):
        with pytest.raises(Refused):
            Operator(who, reason)


async def test_the_fence_refuses_every_write_of_that_day_and_none_of_others(old_days: OldDays) -> None:
    """Through the parent, into the day table, into the leaf, as an ordinary session and as a replica: HB001."""
    connection = await asyncpg.connect(old_days.set_access.dsn)
    await fence(connection, DAY)
    await connection.close()
    row = (
        "INSERT INTO {into} SELECT envelope_id + 1000, amount_fen, claimed_at, seq, shares, slot, kind, user_id "
        "FROM claim WHERE envelope_id {of} LIMIT 1"
    )
    of_day, of_next = f"< {make_id(NEXT, 0, 0)} AND slot = 3", f">= {make_id(NEXT, 0, 0)}"
    writes = [row.format(into=into, of=of_day) for into in ("claim", f"claim_{DAY:%Y%m%d}", f"db_00.claim_3_{DAY:%d}")]
    writes += [
        f"UPDATE claim SET amount_fen = 1 WHERE envelope_id {of_day}", f"DELETE FROM envelope WHERE envelope_id {of_day}",
        writes[0] + " ON CONFLICT DO NOTHING",
    ]  # fmt: skip
    for role in ("origin", "replica"):
        connection = await asyncpg.connect(old_days.set_dsn)
        await connection.execute(f"SET session_replication_role = {role}")
        for write in writes:
            with pytest.raises(asyncpg.PostgresError) as refused:
                await connection.execute(write)
            assert (refused.value.sqlstate, refused.value.detail) == ("HB001", DAY.isoformat()), write
        allowed = connection.transaction()
        await allowed.start()
        assert await connection.execute(row.format(into="claim", of=of_next)) == "INSERT 0 1"
        await allowed.rollback()
        await connection.close()


async def refused_by_guard(old_days: OldDays, *statements: str) -> str:
    """Run statements in one transaction of the owner's; return what the guard says of the last."""
    connection = await asyncpg.connect(old_days.set_access.dsn)
    try:
        transaction = connection.transaction()
        await transaction.start()
        for statement in statements[:-1]:
            await connection.execute(statement)
        with pytest.raises(asyncpg.PostgresError) as refused:
            await connection.execute(statements[-1])
        assert refused.value.sqlstate in ("HB003", "HB004", "23514"), refused.value
        await transaction.rollback()
        return str(refused.value)
    finally:
        await connection.close()


TAG = f"{DAY:%Y%m%d}"
LEAF = f"cold_00_{TAG}.claim_3_{DAY:%d}"
DIGEST = "0" * 64
CLOSE = """INSERT INTO day_register (day, xx, state, envelopes, claims, paid_in_fen, claimed_fen, refunded_fen)
SELECT '{day}', 0, '{state}', (SELECT count(*) FROM envelope_{tag} WHERE slot < 10), count(*), sum(amount_fen),
    sum(amount_fen) FILTER (WHERE kind = 'open') + {more}, sum(amount_fen) FILTER (WHERE kind <> 'open') - {more}
FROM claim_{tag} WHERE slot < 10""".format
AS_CLOSED = CLOSE(day=DAY, state="closed", tag=TAG, more=0)
FENCES = [
    f"CREATE TRIGGER day_fence BEFORE INSERT OR UPDATE OR DELETE ON {kind}_{TAG} FOR EACH ROW "
    f"EXECUTE FUNCTION refuse_closed_day('{DAY}')"
    for kind in ("envelope", "claim", "guest")
]
ALWAYS = [f"ALTER TABLE {kind}_{TAG} ENABLE ALWAYS TRIGGER day_fence" for kind in ("envelope", "claim", "guest")]
ONE_SLOT = f"envelope_id < {make_id(NEXT, 0, 0)} AND slot = 3"
GUARDED_CLOSES = [
    ("without a fence", "fence", [AS_CLOSED]),
    ("with a fence that replicas pass", "fence", [*FENCES, AS_CLOSED]),
    ("with a leaf that is not fenced", "fence",
     [*FENCES, *ALWAYS, f"ALTER TABLE db_00.claim_3_{DAY:%d} DISABLE TRIGGER day_fence", AS_CLOSED]),
    ("with a leaf too few", "not all there", [f"DROP TABLE db_00.claim_3_{DAY:%d}", *FENCES, *ALWAYS, AS_CLOSED]),
    ("with something due", "waits for its end",
     [*FENCES, *ALWAYS, f"INSERT INTO due SELECT now(), envelope_id FROM envelope WHERE {ONE_SLOT} LIMIT 1", AS_CLOSED]),
    ("with something unpaid", "waits to be paid",
     [*FENCES, *ALWAYS, "INSERT INTO payout_batch (created_at, server, envelope_ids, seqs) SELECT now(), '', "
      f"ARRAY[envelope_id], '{{0}}' FROM envelope WHERE {ONE_SLOT} LIMIT 1", AS_CLOSED]),
    ("with something stuck", "stuck",
     [*FENCES, *ALWAYS, f"INSERT INTO payout_stuck SELECT envelope_id, 0, 1, now(), '' FROM envelope WHERE {ONE_SLOT} LIMIT 1",
      AS_CLOSED]),
    ("with an open envelope", "still open",
     [f"DELETE FROM claim WHERE kind = 'expired' AND envelope_id < {make_id(NEXT, 0, 0)} AND slot = 3", *FENCES, *ALWAYS, AS_CLOSED]),
    ("with other sums", "sums", [*FENCES, *ALWAYS, CLOSE(day=DAY, state="closed", tag=TAG, more=1)]),
    ("while a move is at work on one leaf", "a move is at work",
     [*FENCES, *ALWAYS, f"CREATE TRIGGER moved_away BEFORE INSERT ON db_00.claim_3_{DAY:%d} FOR EACH ROW "
      "EXECUTE FUNCTION moved_away('00')", AS_CLOSED]),
    ("without another database that has rows", "not closed with it", [*FENCES, *ALWAYS, AS_CLOSED]),
    ("as detached at once", "one step", [*FENCES, *ALWAYS, CLOSE(day=DAY, state="detached", tag=TAG, more=0)]),
]  # fmt: skip


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(("what", "says", "statements"), GUARDED_CLOSES, ids=[one[0] for one in GUARDED_CLOSES])
async def test_the_database_closes_no_day_by_hand_without_its_proof(hot_days: OldDays, what, says, statements) -> None:
    """The owner himself cannot write `closed` into the register while one thing stands in the way."""
    assert says in await refused_by_guard(hot_days, *statements)


def to(state: str, more: str = "") -> str:
    return f"UPDATE day_register SET state = '{state}'{more} WHERE day = '{DAY}' AND xx = 0"


GIVEN = f", manifest_sha256 = '{DIGEST}'"
GUARDED_STEPS = [
    ("closed", "detached while it hangs under the hot tables", "hot tables", [to("detached")]),
    ("closed", "two steps at once", "one step", [to("exported", GIVEN)]),
    ("closed", "back to nothing", "stays", ["DELETE FROM day_register"]),
    ("closed", "emptied", "stays", ["TRUNCATE day_register"]),
    ("closed", "other sums", "one step", ["UPDATE day_register SET claims = claims + 1"]),
    ("closed", "another day", "one step", ["UPDATE day_register SET day = day + 1"]),
    ("closed", "the fence taken away", "fence",
     [*(f"ALTER TABLE {kind} DETACH PARTITION {kind}_{TAG}" for kind in ("envelope", "claim", "guest")),
      f"DROP TRIGGER day_fence ON guest_{TAG}", to("detached")]),
    ("closed", "detached in half", "hot tables",
     [f"ALTER TABLE envelope DETACH PARTITION envelope_{TAG}", f"ALTER TABLE claim DETACH PARTITION claim_{TAG}", to("detached")]),
    ("closed", "detached with its leaves in the way", "leaves",
     [*(f"ALTER TABLE {kind} DETACH PARTITION {kind}_{TAG}" for kind in ("envelope", "claim", "guest")), to("detached")]),
    ("detached", "exported without a digest", "check", [to("exported")]),
    ("detached", "exported with a digest that is none", "check", [to("exported", ", manifest_sha256 = 'x'")]),
    ("detached", "verified unexported", "one step", [to("verified", GIVEN)]),
    ("exported", "verified with another digest", "one step", [to("verified", GIVEN)]),
    ("exported", "dropped unverified", "one step", [f"DROP SCHEMA cold_00_{TAG} CASCADE", to("dropped")]),
    ("verified", "dropped while its tables stand", "still stand", [to("dropped")]),
    ("verified", "dropped with one leaf left", "still stand",
     [f"ALTER TABLE claim_{TAG} DETACH PARTITION {LEAF}", f"ALTER TABLE {LEAF} SET SCHEMA public",
      f"DROP SCHEMA cold_00_{TAG} CASCADE", f"CREATE SCHEMA cold_00_{TAG}",
      f"ALTER TABLE claim_3_{DAY:%d} SET SCHEMA cold_00_{TAG}", to("dropped")]),
]  # fmt: skip


@pytest.mark.timeout(240)
async def test_the_register_takes_one_step_at_a_time_with_its_proof(old_days: OldDays) -> None:
    """Whoever holds the owner's password: no state is written whose proof does not hold in that transaction."""
    for state in ("closed", "detached", "exported", "verified"):
        await old_days.run_to(state)
        assert await old_days.states() == {0: state, 1: state}
        for before, what, says, statements in GUARDED_STEPS:
            if before == state:
                assert says in await refused_by_guard(old_days, *statements), (before, what)
        assert await old_days.states() == {0: state, 1: state}


async def test_no_line_of_the_log_is_changed_or_lost(old_days: OldDays) -> None:
    """Neither the owner nor the superuser changes, deletes or empties it."""
    await old_days.run_to("closed")
    for statement in ("UPDATE operation_log SET who = ''", "DELETE FROM operation_log", "TRUNCATE operation_log"):
        assert "stays" in await refused_by_guard(old_days, statement)
        with pytest.raises(asyncpg.PostgresError, match="stays"):
            await old_days.rows(statement)
