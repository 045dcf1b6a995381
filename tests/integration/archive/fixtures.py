# ruff: noqa: E501 - one case a line reads best
"""Cold days for tests: a SET filled with closed envelopes of a past day, and that day detached by plain SQL."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from envelope.split import SPLIT_VERSION, Split, amounts
from schema import names, roles
from schema.day_tables import DayTables
from schema.migrate import migrate_set
from schema.names import TableKind
from sharding.ids import make_id
from tests.conftest import Databases

DAY = date(2026, 11, 3)
KEY = b"an archive key for tests"
AT = datetime(2026, 11, 3, 4, 5, 6, 789_123, tzinfo=UTC)

ENVELOPE_COLUMNS = (
    "envelope_id", "total_fen", "created_at", "opens_at", "expires_at", "shares", "slot", "split_version", "kind", "split",
    "named", "sender", "seed", "create_key", "password_mac", "greeting", "min_fen", "max_fen", "header_seal",
)  # fmt: skip
CLAIM_COLUMNS = ("envelope_id", "amount_fen", "claimed_at", "seq", "shares", "slot", "kind", "user_id")
GUEST_COLUMNS = ("envelope_id", "slot", "wrong_tries", "invited", "user_id")


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the archives of the template `kept` are: each test has copies of both."""
    return tmp_path_factory.mktemp("kept") / "archive"


async def build_past(dsn: str) -> None:
    """A SET with the tables of DAY for databases 0 and 1."""
    await migrate_set(dsn)
    await DayTables(dsn, range(2)).ensure(DAY, ahead_days=0)


@asynccontextmanager
async def owner(databases: Databases, dsn: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(databases.dsn_as(dsn, roles.OWNER))
    try:
        yield connection
    finally:
        await connection.close()


def closed_envelope(
    envelope_id: int, shares: int, opened: int, *, closing: str = "expired", **terms: Any
) -> tuple[tuple[Any, ...], list[tuple[Any, ...]]]:
    """Return the header and the claims of an envelope with `opened` of `shares` taken and the rest refunded."""
    luck = random.Random(envelope_id)
    total_fen, seed, slot = shares * 100, luck.randbytes(32), envelope_id % 1000
    header = {
        "envelope_id": envelope_id, "total_fen": total_fen, "created_at": AT, "opens_at": AT,
        "expires_at": AT + timedelta(days=1), "shares": shares, "slot": slot, "split_version": SPLIT_VERSION, "kind": "lucky",
        "split": "double_mean", "named": False, "sender": "sender", "seed": seed.hex(), "create_key": f"{envelope_id:032d}",
        "password_mac": None, "greeting": "恭喜发财", "min_fen": None, "max_fen": None, "header_seal": None, **terms,
    }  # fmt: skip
    parts = amounts(Split.DOUBLE_MEAN, total_fen, shares, seed)
    rows = [
        (envelope_id, parts[seq], AT + timedelta(milliseconds=seq), seq, shares, slot, "open", f"user-{luck.randrange(10**9)}-{seq}")
        for seq in range(opened)
    ]  # fmt: skip
    if opened < shares:
        rest = sum(parts[opened:])
        rows.append((envelope_id, rest, AT + timedelta(days=1, seconds=1), opened, shares, slot, closing, ""))
    return tuple(header[name] for name in ENVELOPE_COLUMNS), rows


async def put(dsn: str, headers: list[Any], claims: list[Any], guests: list[Any] = ()) -> None:
    """Write rows as they are: no trigger looks at them, none makes payouts of them."""
    connection = await asyncpg.connect(dsn)
    await connection.execute("SET session_replication_role = replica")
    for table, columns, rows in (
        ("envelope", ENVELOPE_COLUMNS, headers),
        ("claim", CLAIM_COLUMNS, claims),
        ("guest", GUEST_COLUMNS, list(guests)),
    ):
        await connection.copy_records_to_table(table, records=rows, columns=columns)
    await connection.close()


async def fill(dsn: str, envelopes: int, *, seed: int = 1, day: date = DAY, databases: int = 2) -> int:
    """Write closed envelopes of 1 to 30 shares into all slots; returns how many claims."""
    luck = random.Random(seed)
    headers, claims = [], []
    for _ in range(envelopes):
        shares = luck.randint(1, 30)
        envelope_id = make_id(day, luck.randrange(10**10), luck.randrange(databases * 10))
        header, rows = closed_envelope(envelope_id, shares, luck.randint(0, shares))
        headers.append(header)
        claims += rows
    await put(dsn, headers, claims)
    return len(claims)


async def detach(connection: Any, day: date = DAY, databases: range = range(2), *, grant: bool = True) -> None:
    """Do by plain SQL what the rotation does: detach the day, move its leaves, write the register.

    The register's own guard is not asked: these tests are about what comes after it.
    """
    await connection.execute("ALTER TABLE day_register DISABLE TRIGGER USER")
    for xx in databases:
        await register(connection, day, xx)
    for kind in (TableKind.ENVELOPE, TableKind.CLAIM, TableKind.GUEST):
        await connection.execute(f"ALTER TABLE {kind.value} DETACH PARTITION {names.day_table(kind, day)}")
        if grant:
            await connection.execute(f"GRANT SELECT ON {names.day_table(kind, day)} TO {roles.SETNODE}, {roles.AUDIT}")
    for xx in databases:
        cold = f"cold_{xx:02d}_{day:%Y%m%d}"
        await connection.execute(f"CREATE SCHEMA {cold}")
        for kind in TableKind:
            leaves = {names.leaf(kind, slot, day) for slot in range(xx * 10, xx * 10 + 10)}
            for leaf in sorted(leaves):
                await connection.execute(f"ALTER TABLE {leaf} SET SCHEMA {cold}")
        await move_on(connection, day, xx, "detached")


async def register(connection: Any, day: date, xx: int) -> None:
    """Write that a day is closed, as the rotation would, from the tables."""
    slots = f"slot BETWEEN {xx * 10} AND {xx * 10 + 9}"
    envelope, claim = (names.day_table(kind, day) for kind in (TableKind.ENVELOPE, TableKind.CLAIM))
    await connection.execute(
        f"""INSERT INTO day_register (day, xx, state, envelopes, claims, paid_in_fen, claimed_fen, refunded_fen)
        SELECT $1, $2, $3, (SELECT count(*) FROM {envelope} WHERE {slots}), count(*),
            (SELECT coalesce(sum(total_fen), 0) FROM {envelope} WHERE {slots}),
            coalesce(sum(amount_fen) FILTER (WHERE kind = 'open'), 0),
            coalesce(sum(amount_fen) FILTER (WHERE kind <> 'open'), 0)
        FROM {claim} WHERE {slots}""",
        day, xx, "closed",
    )  # fmt: skip


async def move_on(connection: Any, day: date, xx: int, state: str, digest: str | None = None) -> None:
    await connection.execute(
        "UPDATE day_register SET state = $3, manifest_sha256 = coalesce($4, manifest_sha256) WHERE day = $1 AND xx = $2",
        day, xx, state, digest,
    )  # fmt: skip


async def drop(connection: Any, day: date, xx: int) -> None:
    """Drop the rows of one database as the rotation would, and say so in the register."""
    await connection.execute("SET lock_timeout = '200ms'")
    for _ in range(100):
        try:
            async with connection.transaction():
                await connection.execute(f"DROP SCHEMA cold_{xx:02d}_{day:%Y%m%d} CASCADE")
                await move_on(connection, day, xx, "dropped")
        except asyncpg.LockNotAvailableError:
            await asyncio.sleep(random.uniform(0, 0.3))
        else:
            return
    raise AssertionError("the drop never got its lock")
