"""What the schema itself holds, whatever the code above does; and the day tables made ahead."""

import asyncio
import contextlib
import re
import shutil
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import asyncpg
import pytest
import pytest_asyncio

from errors import Refused, Unavailable
from schema import day_tables, migrate, roles
from schema.day_tables import DayTables, known_days
from schema.migrate import migrate_set, migrate_wallet
from sharding.ids import business_date, make_id
from tests.integration.schema.catalog import look, read_into
from tests.integration.setnode.fixtures import build_set, module_databases

__all__ = ["module_databases"]
TODAY = business_date(datetime.now(UTC))
ENVELOPE = make_id(TODAY, 1, 7)
SEED = "00" * 32


@pytest.mark.parametrize(("name", "migrate"), [("set", migrate_set), ("wallet", migrate_wallet)])
async def test_migrations_give_the_readable_schema(databases, name, migrate):
    """Tables, partition keys, constraints, indexes, options and grants are the same on both ways; again is nothing."""
    migrated, readable = await databases.empty(), await databases.empty()
    assert await migrate(migrated)
    assert await migrate(migrated) == []
    await read_into(readable, name)
    one, other = await look(migrated), await look(readable)
    assert one["constraints"]
    assert one == other


class Tables:
    """A SET's database; `as_role` runs statements in a transaction that is rolled back."""

    def __init__(self, databases, dsn: str) -> None:
        self.databases = databases
        self.dsn = dsn

    async def as_role(self, role: str, *statements: str) -> object:
        dsn = self.dsn if role == "postgres" else self.databases.dsn_as(self.dsn, role)
        connection = await asyncpg.connect(dsn)
        try:
            transaction = connection.transaction()
            await transaction.start()
            result = None
            for statement in statements:
                result = await connection.fetch(statement)
            await transaction.rollback()
            return result
        finally:
            await connection.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tables(module_databases) -> Tables:
    return Tables(module_databases, await module_databases.clone("schema", partial(build_set, TODAY)))


def envelope(**changed) -> str:
    row = {
        "envelope_id": ENVELOPE, "slot": 7, "total_fen": 100, "shares": 3, "created_at": "now()", "opens_at": "now()",
        "expires_at": "now() + interval '1 day'", "split_version": 1, "kind": "'lucky'", "split": "'double_mean'",
        "named": "false", "sender": "'s'", "seed": f"'{SEED}'", "create_key": "'k'", "greeting": "''", **changed,
    }  # fmt: skip
    return f"INSERT INTO envelope ({', '.join(row)}) VALUES ({', '.join(map(str, row.values()))})"


def claim(**changed) -> str:
    row = {
        "envelope_id": ENVELOPE, "slot": 7, "seq": 0, "shares": 3, "amount_fen": 10, "claimed_at": "now()",
        "kind": "'open'", "user_id": "'u'", **changed,
    }  # fmt: skip
    return f"INSERT INTO claim ({', '.join(row)}) VALUES ({', '.join(map(str, row.values()))})"


FORBIDDEN = {
    roles.SETNODE: [
        "DROP TABLE claim", "DELETE FROM claim", "UPDATE claim SET amount_fen = 1", "TRUNCATE claim",
        "DELETE FROM envelope", "UPDATE envelope SET total_fen = 1", "UPDATE due SET expires_at = now()",
        "UPDATE payout_batch SET server = ''", "UPDATE guest SET invited = true", "DELETE FROM guest",
        "CREATE TABLE mine (x int)", "CREATE SCHEMA mine", "ALTER TABLE claim DROP COLUMN kind",
        "DELETE FROM fund_cursor", "ALTER TABLE claim DETACH PARTITION claim_" + f"{TODAY:%Y%m%d}",
        "DROP SCHEMA db_00 CASCADE", f"DELETE FROM db_00.claim_7_{TODAY:%d}",
        claim().replace("INTO claim", f"INTO db_00.claim_7_{TODAY:%d}"), "DROP TRIGGER claim_insert ON claim",
        "ALTER TABLE claim DISABLE TRIGGER ALL", "SET session_replication_role = 'replica'",
    ],
    roles.AUDIT: [
        claim(), envelope(), "DELETE FROM due", "DELETE FROM payout_batch", "UPDATE fund_cursor SET after = 9",
        "DELETE FROM payout_stuck", "INSERT INTO due VALUES (now(), 1)", "CREATE TABLE mine (x int)", "DROP TABLE due",
        f"SELECT * FROM db_00.claim_7_{TODAY:%d}",
    ],
}  # fmt: skip


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(("role", "statement"), [(role, one) for role, many in FORBIDDEN.items() for one in many])
async def test_no_role_can_do_more_than_its_work(tables, role, statement):
    """The setnode appends and never drops, updates or deletes what is money; the audit only reads."""
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await tables.as_role(role, statement)


@pytest.mark.asyncio(loop_scope="module")
async def test_each_role_can_do_its_work(tables):
    """The setnode writes envelopes and claims, the audit reads every table."""
    await tables.as_role(roles.SETNODE, envelope(), claim(), "DELETE FROM due", "UPDATE fund_cursor SET after = after")
    for name in ("envelope", "claim", "guest", "due", "payout_batch", "payout_stuck", "fund_cursor"):
        await tables.as_role(roles.AUDIT, f"SELECT * FROM {name} LIMIT 1")


INTENT = "INSERT INTO payout_batch (created_at, server, envelope_ids, seqs) VALUES (now(), '', "
WRONG_ROWS = [
    ("two claims of a user", [claim(), claim(seq=1)]),
    ("two claims of a seq", [claim(), claim(user_id="'v'")]),
    ("two closings", [claim(kind="'expired'", user_id="''"), claim(seq=1, kind="'canceled'", user_id="''")]),
    ("a seq at the shares", [claim(seq=3)]),
    ("a seq below zero", [claim(seq=-1)]),
    ("nothing claimed", [claim(amount_fen=0)]),
    ("a claim in the wrong slot", [claim(slot=8)]),
    ("a claim of nobody", [claim(user_id="''")]),
    ("a closing of somebody", [claim(kind="'expired'")]),
    ("an unknown kind", [claim(kind="'gift'")]),
    ("a claim of a day without tables", [claim(envelope_id=make_id(TODAY + timedelta(days=40), 1, 7))]),
    ("a claim of a slot not held", [claim(envelope_id=make_id(TODAY, 1, 707), slot=707)]),
    ("more shares than fen", [envelope(shares=101)]),
    ("no shares", [envelope(shares=0)]),
    ("no money", [envelope(total_fen=0)]),
    ("an envelope in the wrong slot", [envelope(slot=8)]),
    ("a seed of 31 bytes", [envelope(seed="'" + "00" * 31 + "'")]),
    ("closed before it opens", [envelope(opens_at="now() + interval '2 days'")]),
    ("no sender", [envelope(sender="''")]),
    ("an ID twice", [envelope(), envelope()]),
    ("an intent for nothing", [INTENT + "'{}', '{}')"]),
    ("an intent out of step", [INTENT + "'{1}', '{1,2}')"]),
    ("a second cursor", ["INSERT INTO fund_cursor (after) VALUES (1)"]),
    ("an unknown kind of envelope", [envelope(kind="'gift'")]),
    ("closed before it is made", [envelope(expires_at="now()", opens_at="now() - interval '1 day'")]),
    ("one wrong among many", [claim() + ", " + claim(seq=3, user_id="'v'").partition("VALUES ")[2]]),
    ("a negative count of tries", [f"INSERT INTO guest VALUES ({ENVELOPE}, 7, -1, false, 'u')"]),
    ("a guest in the wrong slot", [f"INSERT INTO guest VALUES ({ENVELOPE}, 8, 0, true, 'u')"]),
    ("a guest without a name", [f"INSERT INTO guest VALUES ({ENVELOPE}, 7, 0, true, '')"]),
    (
        "a count of tries that turns negative",
        [f"INSERT INTO guest VALUES ({ENVELOPE}, 7, 1, false, 'u')", "UPDATE guest SET wrong_tries = -1"],
    ),
]  # fmt: skip


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(("what", "statements"), WRONG_ROWS, ids=[what for what, _ in WRONG_ROWS])
async def test_wrong_rows_are_refused_by_the_schema_itself(tables, what, statements):
    """Wrong code above can stop the system but not bend the money."""
    with pytest.raises(asyncpg.IntegrityConstraintViolationError):
        await tables.as_role("postgres", *statements)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(("make", "rule"), [(envelope, "envelope_null"), (claim, "claim_null")])
async def test_no_column_can_be_null(tables, make, rule):
    """Columns are not declared NOT NULL (decision 14): the rule refuses one of each, but for who has no password."""
    columns = re.search(r"\((.*?)\) VALUES", make())[1].split(", ")
    of_table = f"attrelid = '{rule.removesuffix('_null')}'::regclass AND attnum > 0"
    known = await tables.as_role("postgres", f"SELECT attname::text FROM pg_attribute WHERE {of_table}")
    assert {row["attname"] for row in known} == {*columns} | (
        {"password_mac", "min_fen", "max_fen", "header_seal"} if make is envelope else set()
    )
    for column in columns:
        with pytest.raises(asyncpg.IntegrityConstraintViolationError) as refused:
            await tables.as_role("postgres", make(**{column: "NULL"}))
        # No leaf is found for a row without a day or a slot.
        assert refused.value.constraint_name == rule or column in {"envelope_id", "slot"}


@pytest.mark.asyncio(loop_scope="module")
async def test_leaves_of_what_is_many_have_no_constraints(tables):
    """Postgres reads the whole of pg_constraint for each leaf it makes: there must be nothing in it for each leaf."""
    rows = await tables.as_role(
        "postgres",
        """SELECT c.oid::regclass, o.conname FROM pg_constraint o JOIN pg_class c ON c.oid = o.conrelid
        WHERE c.relname LIKE 'envelope%' OR c.relname LIKE 'claim%'""",
    )
    assert list(rows) == []


async def test_constraints_of_days_that_stand_become_indexes(databases, tmp_path):
    """A SET with rows is migrated from its constraints: the rows stay, and the same wrong ones are still refused."""
    dsn = await databases.empty()
    for path in sorted((Path(migrate.__file__).parent / "set").glob("*.sql")):
        if path.stem < "0007":
            shutil.copy(path, tmp_path)
    await migrate._migrate(dsn, tmp_path)
    await DayTables(dsn, [0]).ensure(TODAY, ahead_days=1)
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(envelope())
        await connection.execute(claim())
        assert "0007_constraints" in await migrate_set(dsn)
        for wrong in (envelope(), claim(), claim(user_id="'v'"), claim(seq=1), claim(seq=1, user_id="NULL")):
            with pytest.raises(asyncpg.IntegrityConstraintViolationError):
                await connection.execute(wrong)
        await connection.execute(claim(seq=1, user_id="'v'"))
        assert await connection.fetchval("SELECT count(*) FROM claim") == 2
        left = "SELECT count(*) FROM pg_constraint WHERE conrelid::regclass::text ~ 'envelope|claim'"
        assert await connection.fetchval(left) == 0
    finally:
        await connection.close()


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("wrong", [{"seq": 3}, {"amount_fen": 0}, {"slot": 8}, {"kind": "gift"}, {"user_id": ""}])
async def test_copy_is_held_to_the_same_rules(tables, wrong):
    """Whoever copies rows in: one wrong row among right ones, and nothing goes in."""
    right = {
        "envelope_id": ENVELOPE, "slot": 7, "seq": 0, "shares": 3, "kind": "open", "user_id": "u", "amount_fen": 10,
        "claimed_at": datetime.now(UTC),
    }  # fmt: skip
    rows = [tuple(right.values()), tuple({**right, "seq": 1, "user_id": "v", **wrong}.values())]
    connection = await asyncpg.connect(tables.databases.dsn_as(tables.dsn, roles.SETNODE))
    try:
        with pytest.raises(asyncpg.IntegrityConstraintViolationError):
            await connection.copy_records_to_table("claim", records=rows, columns=tuple(right))
        assert await connection.fetchval("SELECT count(*) FROM claim") == 0
    finally:
        await connection.close()


@pytest.mark.asyncio(loop_scope="module")
async def test_a_leaf_refuses_a_row_of_another_month(tables):
    """Written straight into the leaf of this day of the month, a row of another date is refused by its bound."""
    wrong = claim(envelope_id=make_id(TODAY - timedelta(days=365), 1, 7))
    with pytest.raises(asyncpg.CheckViolationError, match="partition constraint"):
        await tables.as_role("postgres", wrong.replace("INTO claim", f"INTO db_00.claim_7_{TODAY:%d}"))


@pytest.mark.asyncio(loop_scope="module")
async def test_no_leaf_has_a_toast_table(tables):
    """Bounded columns only: no leaf costs two relations more."""
    rows = await tables.as_role(
        "postgres",
        """SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname LIKE 'db\\___' AND c.relkind = 'r' AND c.reltoastrelid <> 0""",
    )
    leaves = await tables.as_role(
        "postgres", "SELECT count(*) AS n FROM pg_class c WHERE relnamespace = 'db_00'::regnamespace AND relkind = 'r'"
    )
    assert (list(rows), leaves[0]["n"]) == ([], 3 * 21)


@pytest.fixture
async def empty_set(databases) -> str:
    return await databases.clone("set_empty", migrate_set)


async def days_of(dsn: str) -> set:
    connection = await asyncpg.connect(dsn)
    try:
        return await known_days(connection)
    finally:
        await connection.close()


async def test_day_tables_are_made_once(empty_set):
    """A second round makes nothing; a new database of the SET gets its leaves in days that stand."""
    days = [TODAY, TODAY + timedelta(days=1)]
    assert await DayTables(empty_set, [0]).ensure(TODAY, ahead_days=1) == days
    assert await DayTables(empty_set, [0]).ensure(TODAY, ahead_days=1) == []
    assert await DayTables(empty_set, [0, 1]).ensure(TODAY, ahead_days=1) == days
    assert await days_of(empty_set) == set(days)


async def test_two_makers_at_once_make_every_day_once(empty_set, monkeypatch):
    """However long the first takes, the second waits for him, fails at nothing and makes nothing twice."""
    monkeypatch.setattr(day_tables, "LOCK_TIMEOUT", "1ms")
    made = await asyncio.gather(*(DayTables(empty_set, [0]).ensure(TODAY, ahead_days=2) for _ in range(3)))
    assert sorted(day for days in made for day in days) == [TODAY + timedelta(days=n) for n in range(3)]


async def test_a_name_still_in_use_is_refused_and_the_other_days_are_made(empty_set):
    """Last month's leaf keeps its name: that day is refused, the days around it are made, nothing is mixed."""
    last_month = next(
        TODAY - timedelta(days=n)
        for n in range(27, 70)
        if (TODAY - timedelta(days=n)).day == (TODAY + timedelta(days=1)).day
    )
    tables = DayTables(empty_set, [0])
    await tables.ensure(last_month, ahead_days=0)
    with pytest.raises(Refused) as refused:
        await tables.ensure(TODAY, ahead_days=2)
    assert refused.value.code == "day_table_occupied"
    assert await days_of(empty_set) == {last_month, TODAY, TODAY + timedelta(days=2)}


async def test_a_detached_day_keeps_its_name_too(empty_set):
    """A day that was detached and not yet moved away is not mixed with a new one."""
    tables = DayTables(empty_set, [0])
    await tables.ensure(TODAY, ahead_days=0)
    connection = await asyncpg.connect(empty_set)
    await connection.execute(f"ALTER TABLE claim DETACH PARTITION claim_{TODAY:%Y%m%d}")
    await connection.execute(f"ALTER TABLE claim_{TODAY:%Y%m%d} RENAME TO old_claims")
    await connection.close()
    with pytest.raises(Refused, match="day_table_occupied"):
        await tables.ensure(TODAY, ahead_days=0)


async def test_a_day_that_traffic_holds_is_left_for_the_next_round(empty_set, monkeypatch):
    """The maker gives up soon instead of making everybody wait behind it, and says locked."""
    monkeypatch.setattr(day_tables, "LOCK_TIMEOUT", "20ms")
    async with contextlib.AsyncExitStack() as stack:
        connection = await asyncpg.connect(empty_set)
        stack.push_async_callback(connection.close)
        async with connection.transaction():
            await connection.execute("LOCK TABLE claim IN ACCESS EXCLUSIVE MODE")
            with pytest.raises(Unavailable, match="day_tables_locked"):
                await DayTables(empty_set, [0]).ensure(TODAY, ahead_days=0)
    assert await DayTables(empty_set, [0]).ensure(TODAY, ahead_days=0) == [TODAY]


async def test_guests_are_found_by_user_on_old_and_new_days(databases) -> None:
    """The migration indexes the leaves that are there, a day made later brings its own, and the parent has all."""
    dsn = await databases.clone("schema", partial(build_set, TODAY))
    connection = await asyncpg.connect(dsn)

    async def leaves() -> dict[str, int]:
        """Return by day table how many leaves have the index, as a part of the parent's."""
        rows = await connection.fetch("""
            SELECT t.relname, count(leaf.inhrelid) AS leaves FROM pg_inherits i
            JOIN pg_index x ON x.indexrelid = i.inhrelid AND x.indisvalid JOIN pg_class t ON t.oid = x.indrelid
            LEFT JOIN pg_inherits leaf ON leaf.inhparent = i.inhrelid
            WHERE i.inhparent = 'guest_user'::regclass GROUP BY t.relname""")
        return {row["relname"]: row["leaves"] for row in rows}

    made = {f"guest_{TODAY + timedelta(days=number):%Y%m%d}": 3 for number in range(3)}
    assert await leaves() == made
    await connection.execute("DROP INDEX guest_user")
    await connection.execute((Path(migrate.__file__).parent / "set" / "0010_guests_by_user.sql").read_text())
    assert await leaves() == made
    await DayTables(dsn, range(3)).ensure(TODAY, ahead_days=3)
    assert await leaves() == {**made, f"guest_{TODAY + timedelta(days=3):%Y%m%d}": 3}
    await connection.close()
