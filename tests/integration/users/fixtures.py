"""A user with a past: envelopes, shares and invitations on a day that may be archived and on one that is hot.

Alice's balance is 0, as it must be to be forgotten. A test module imports `past_of_alice` and names it in `__all__`.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import asyncpg
import pytest

from archive.place import Archive
from audit.report import Violation
from envelope.header_hash import header_hash
from envelope.split import SPLIT_VERSION, Split, amounts
from envelope.terms import Kind, Terms
from runtime.clock import to_ms
from schema import roles
from schema.migrate import migrate_wallet
from setnode.header_seal import HeaderSeal
from sharding.ids import make_id
from tests.conftest import Databases
from tests.integration.objects.copies import copied
from tests.integration.rotation.fixtures import (
    ARCHIVE_KEY,
    CLAIM,
    DAY,
    HEADER,
    NEXT,
    TODAY,
    XXS,
    Books,
    OldDays,
    build_old_set,
)
from users import forget as forgetting
from users.forget import Forgotten, forget
from users.installed import Installed, SetPlace
from users.journal import Operator
from wire.orders import escrow_account, payout_order

ALICE = "alice.Sun@example"
HEADER_KEY = b"a key of setnodes for tests"
GUEST = ("envelope_id", "slot", "wrong_tries", "invited", "user_id")
BY = Operator("officer", "asked for")
_SEAL = HeaderSeal(HEADER_KEY)


class SealedBooks(Books):
    """Books whose headers are sealed, with greetings and guests; of envelopes that the caller describes."""

    def __init__(self) -> None:
        super().__init__()
        self.guests: list[tuple[Any, ...]] = []

    def envelope(
        self, day: date, sender: str, winners: Sequence[str], *, shares: int = 4, closed: bool = True,
        to: Sequence[str] | None = None, tried: Sequence[str] = (), greeting: str = "", slot: int | None = None,
    ) -> int:  # fmt: skip
        """One envelope; what is not won goes back if it is `closed`, and its money is booked."""
        luck = self.luck
        slot = luck.randrange(10 * len(XXS)) if slot is None else slot
        envelope_id = make_id(day, luck.randrange(10**10), slot)
        at = datetime(day.year, day.month, day.day, 4, tzinfo=UTC)
        ends, total, seed, key = at + timedelta(days=1), shares * 100, luck.randbytes(32), f"{envelope_id:032d}"
        password = "ab" * 32 if tried else None
        terms = Terms(
            envelope_id, sender, Kind.LUCKY, Split.DOUBLE_MEAN, SPLIT_VERSION, total, shares, greeting, to_ms(at),
            to_ms(at), to_ms(ends), seed, key, None if to is None else frozenset(to), password,
        )  # fmt: skip
        hashed = header_hash(terms)
        self.headers.append(
            (envelope_id, total, at, at, ends, shares, slot, SPLIT_VERSION, "lucky", "double_mean", to is not None,
             sender, seed.hex(), key, password, greeting, _SEAL.of(hashed))
        )  # fmt: skip
        self.guests += [(envelope_id, slot, 0, True, one) for one in to or ()]
        self.guests += [(envelope_id, slot, 2, False, one) for one in tried]
        parts = amounts(Split.DOUBLE_MEAN, total, shares, seed)
        rows = [(seq, "open", winner, parts[seq]) for seq, winner in enumerate(winners)]
        if closed and len(rows) < shares:
            rows.append((len(rows), "expired", "", sum(parts[len(rows) :])))
        if not closed:
            self.dues.append((ends, envelope_id))
        payer = f"user:{sender}"
        if sender != ALICE:
            self._move("outside", payer, payer, total, None, 0, f"D{key}", at)
        self._move(payer, escrow_account(envelope_id), payer, total, envelope_id, 1, f"F{key}", at)
        left = total - sum(fen for *_, fen in rows)
        self.funds.append((envelope_id, self._account(payer), total, left, at, key, "f", hashed, b""))
        for seq, kind, user, fen in rows:
            when = (at if user else ends) + timedelta(milliseconds=seq)
            self.claims.append((envelope_id, fen, when, seq, shares, slot, kind, user))
            receiver = f"user:{user or sender}"
            self._move(
                escrow_account(envelope_id), receiver, receiver, fen, envelope_id, 2 if user else 3,
                payout_order(envelope_id, seq), when,
            )  # fmt: skip
        return envelope_id

    def settle(self, user: str, left_fen: int = 0) -> None:
        """Have the user's first deposit leave exactly this balance."""
        account = f"user:{user}"
        fen = left_fen - self.balances[account]
        assert fen > 0
        self._move("outside", account, account, fen, None, 0, f"D{user[::-1]}", datetime(2026, 2, 27, tzinfo=UTC))

    async def write_set(self, dsn: str) -> None:
        connection = await asyncpg.connect(dsn)
        try:
            await connection.execute("SET session_replication_role = replica")
            await connection.copy_records_to_table("envelope", records=self.headers, columns=(*HEADER, "header_seal"))
            await connection.copy_records_to_table("claim", records=self.claims, columns=CLAIM)
            await connection.copy_records_to_table("guest", records=self.guests, columns=GUEST)
            await connection.copy_records_to_table("due", records=self.dues, columns=("expires_at", "envelope_id"))
        finally:
            await connection.close()


def books(left_fen: int = 0) -> SealedBooks:
    """Alice and others on DAY, all closed, and on the next day, with two envelopes of others that are open."""
    made = SealedBooks()
    for day in (DAY, NEXT):
        made.envelope(day, ALICE, ["bob", "carol"], greeting=f"from {ALICE} with love", slot=3)
        made.envelope(day, ALICE, ["bob", "carol"], shares=2, to=["bob", "carol"], greeting="for two", slot=13)
        made.envelope(day, ALICE, [], greeting="nobody came", slot=4)
        made.envelope(day, ALICE, [ALICE, "bob"], shares=7, greeting="", slot=14)
        made.envelope(day, "bob", ["carol", ALICE], greeting="from bob", slot=3)
        made.envelope(day, "bob", [ALICE], to=["zoe", ALICE, "aaron"], slot=15)
        made.envelope(day, "bob", ["carol"], to=["zoe", ALICE], slot=16)
        made.envelope(day, "carol", ["bob"], tried=[ALICE, "zoe"], slot=3)
        made.envelope(day, "carol", ["bob", "zoe"], slot=5)
    made.envelope(NEXT, "bob", [ALICE, "carol"], closed=False, slot=6)
    made.envelope(NEXT, "bob", ["carol"], closed=False, to=[ALICE, "carol"], slot=17)
    made.settle(ALICE, left_fen)
    return made


@dataclass
class AlicesPast:
    """The days, and what the commands work with."""

    days: OldDays
    installed: Installed
    before: dict[str, Any] = field(default_factory=dict)

    async def take_to(self, state: str) -> None:
        """Take DAY to a state of the register ("hot": leave it)."""
        if state == "dropped":
            from rotation.drop import drop_day
            from tests.integration.rotation.fixtures import BY as ROTATOR

            await self.days.run_to("verified")
            await drop_day(self.days.rotation, DAY, TODAY, ROTATOR, retention_days=0)
        elif state != "hot":
            await self.days.run_to(state)

    async def forget(self, **options: Any) -> Forgotten:
        return await forget(self.installed, ALICE, BY, TODAY, **options)

    async def violations(self) -> list[Violation]:
        return await self.days.violations()

    async def note_money(self) -> None:
        self.before = await self.money()

    async def money(self) -> dict[str, Any]:
        """Every row that money depends on, without names."""
        days = self.days
        return {
            "balances": await days.rows("SELECT account_id, kind, balance_fen FROM account ORDER BY 1", wallet=True),
            "transfers": await days.rows("SELECT * FROM transfer ORDER BY transfer_id", wallet=True),
            "funds": await days.rows(
                "SELECT fund_id, envelope_id, user_account, total_fen, left_fen, create_key FROM fund ORDER BY 1",
                wallet=True,
            ),
            "hot claims": await days.rows(
                "SELECT envelope_id, seq, kind, amount_fen, claimed_at, slot FROM claim ORDER BY 1, 2"
            ),
            "register": await days.rows(
                "SELECT day, xx, state, envelopes, claims, paid_in_fen, claimed_fen, refunded_fen FROM day_register "
                "ORDER BY 1, 2"
            ),
        }

    async def where(self, name: str) -> list[str]:
        """Name every text column of both databases, and every file of the archive, in which a name stands."""
        found = []
        for dsn in (self.days.set_dsn, self.days.wallet_dsn):
            connection = await asyncpg.connect(dsn)
            try:
                for row in await connection.fetch(_TEXT_COLUMNS):
                    column, table = f'"{row["column_name"]}"', f'"{row["table_schema"]}"."{row["table_name"]}"'
                    if await connection.fetchval(
                        f"SELECT count(*) FROM {table} WHERE strpos({column}::text, $1) > 0", name
                    ):
                        found.append(f"{row['table_schema']}.{row['table_name']}.{row['column_name']}")
            finally:
                await connection.close()
        archive = self.installed.archive.folder
        with TemporaryDirectory() as copy:
            folder = archive if isinstance(archive, Path) else copied(archive, Path(copy))
            return found + sorted(str(path) for path in folder.rglob("*") if _holds(path, name))


_TEXT_COLUMNS = """
SELECT c.table_schema, c.table_name, c.column_name FROM information_schema.columns c
JOIN information_schema.tables t USING (table_schema, table_name)
WHERE t.table_type = 'BASE TABLE' AND c.table_schema NOT IN ('pg_catalog', 'information_schema')
    AND c.data_type NOT IN ('bigint', 'integer', 'smallint', 'boolean', 'date', 'timestamp with time zone')
    -- A leaf's rows are read through the table that it belongs to.
    AND NOT EXISTS (
        SELECT FROM pg_inherits i JOIN pg_class l ON l.oid = i.inhrelid JOIN pg_namespace n ON n.oid = l.relnamespace
        WHERE l.relname = c.table_name AND n.nspname = c.table_schema)
ORDER BY 1, 2, 3
"""


def _holds(path: Path, name: str) -> bool:
    """Say whether a file has a name in it: in its bytes, or in a value of a Parquet file."""
    import duckdb

    if not path.is_file():
        return False
    if name.encode() in path.read_bytes():
        return True
    if path.suffix != ".parquet":
        return False
    with duckdb.connect() as duck:
        texts = [row[0] for row in duck.execute(f"DESCRIBE SELECT * FROM '{path}'").fetchall() if row[1] == "VARCHAR"]
        anywhere = " OR ".join(f"contains({column}, ?)" for column in texts)
        return bool(duck.execute(f"SELECT count(*) FROM '{path}' WHERE {anywhere}", [name] * len(texts)).fetchone()[0])


async def past_in(databases: Databases, folder: Path, made: SealedBooks, archive: Archive | None = None) -> AlicesPast:
    set_dsn = await databases.clone("old_set", build_old_set)
    wallet_dsn = await databases.clone("wallet", migrate_wallet)
    await made.write_set(set_dsn)
    await made.write_wallet(wallet_dsn)
    days = OldDays(databases, set_dsn, wallet_dsn, folder)
    days.real = archive = archive or Archive(folder / "archive", ARCHIVE_KEY)
    owner, audit = (
        [databases.dsn_as(dsn, role) for dsn in (set_dsn, wallet_dsn)] for role in (roles.OWNER, roles.AUDIT)
    )
    place = SetPlace("set-1", owner[0], audit[0], lambda _: range(10 * len(XXS)))
    return AlicesPast(days, Installed([place], owner[1], audit[1], archive, HEADER_KEY))


@pytest.fixture
async def past_of_alice(
    databases: Databases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[AlicesPast]:
    monkeypatch.setattr(forgetting, "CACHES_S", 0.0)  # no server remembers anything here
    one = await past_in(databases, tmp_path, books())
    yield one
    assert await one.violations() == []
