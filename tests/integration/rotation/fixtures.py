# ruff: noqa: E501 - rows read best in one line
"""A SET and a wallet whose books agree, of past days, made of rows alone; and an archive of the tests' own.

`Books` writes both sides of envelopes that are closed and paid, or left open on purpose. A test module imports `old_days`
and names it in `__all__`.
"""

import hashlib
import json
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import pytest_asyncio

from archive.adapter import ArchiveAdapter
from archive.place import Archive  # noqa: TC001 - plain imports everywhere
from archive.states import State
from audit.proof import AuditTarget, audit
from audit.report import Violation
from envelope.header_hash import header_hash
from envelope.split import SPLIT_VERSION, Split, amounts
from envelope.terms import Kind, Terms
from errors import Refused
from rotation.register import Operator
from rotation.set_access import SetAccess
from rotation.steps import Rotation
from runtime.clock import to_ms
from schema import names, roles
from schema.day_tables import DayTables
from schema.migrate import migrate_set, migrate_wallet
from schema.names import TableKind
from sharding.ids import make_id
from tests.clock import ManualClock
from tests.conftest import Databases
from wire.orders import escrow_account, payout_order

DAY = date(2026, 2, 28)
NEXT = DAY + timedelta(days=1)
TODAY = DAY + timedelta(days=9)
XXS = (0, 1)
ARCHIVE_KEY = b"an archive key for tests"
BY = Operator("tester", "a test")
HEADER = (
    "envelope_id", "total_fen", "created_at", "opens_at", "expires_at", "shares", "slot", "split_version", "kind", "split",
    "named", "sender", "seed", "create_key", "password_mac", "greeting",
)  # fmt: skip
CLAIM = ("envelope_id", "amount_fen", "claimed_at", "seq", "shares", "slot", "kind", "user_id")


@dataclass
class Books:
    """Rows of both databases; `open_ones` envelopes of each day are not closed."""

    luck: random.Random = field(default_factory=lambda: random.Random(7))
    headers: list[tuple[Any, ...]] = field(default_factory=list)
    claims: list[tuple[Any, ...]] = field(default_factory=list)
    dues: list[tuple[Any, ...]] = field(default_factory=list)
    transfers: list[tuple[Any, ...]] = field(default_factory=list)
    funds: list[tuple[Any, ...]] = field(default_factory=list)
    balances: Counter[str] = field(default_factory=Counter)
    accounts: dict[str, int] = field(default_factory=dict)

    def add(self, day: date, *, closed: bool = True, slot: int | None = None, most: int = 12) -> int:
        """One envelope with some opens, closed by expiry unless it is sold out; every fen booked in the wallet."""
        luck = self.luck
        shares = luck.randint(1, most)
        opened = luck.randint(0, shares) if closed else shares - 1
        slot = luck.randrange(10 * len(XXS)) if slot is None else slot
        envelope_id = make_id(day, luck.randrange(10**10), slot)
        at = datetime(day.year, day.month, day.day, 4, tzinfo=UTC)
        total, seed, key = shares * 100, luck.randbytes(32), f"{envelope_id:032d}"
        ends = at + timedelta(days=1)
        self.headers.append(
            (envelope_id, total, at, at, ends, shares, slot, SPLIT_VERSION, "lucky", "double_mean", False, "sender", seed.hex(), key,
             None, "")
        )  # fmt: skip
        parts = amounts(Split.DOUBLE_MEAN, total, shares, seed)
        rows = [(seq, "open", f"user{luck.randrange(50)}-{seq}", parts[seq]) for seq in range(opened)]
        if closed and opened < shares:
            rows.append((opened, "expired", "", sum(parts[opened:])))
        if not closed:
            self.dues.append((ends, envelope_id))
        self._move("outside", "user:sender", "user:sender", total, None, 0, f"D{key}", at)
        self._move("user:sender", escrow_account(envelope_id), "user:sender", total, envelope_id, 1, f"F{key}", at)
        terms = Terms(
            envelope_id, "sender", Kind.LUCKY, Split.DOUBLE_MEAN, SPLIT_VERSION, total, shares, "", to_ms(at), to_ms(at),
            to_ms(ends), seed, key,
        )  # fmt: skip
        left = total - sum(fen for *_, fen in rows)
        payer = self._account("user:sender")
        self.funds.append((envelope_id, payer, total, left, at, key, "f", header_hash(terms), b""))
        for seq, kind, user, fen in rows:
            when = (at if user else ends) + timedelta(milliseconds=seq)
            self.claims.append((envelope_id, fen, when, seq, shares, slot, kind, user))
            receiver = f"user:{user or 'sender'}"
            self._move(
                escrow_account(envelope_id), receiver, receiver, fen, envelope_id, 2 if user else 3,
                payout_order(envelope_id, seq), when,
            )  # fmt: skip
        return envelope_id

    def _account(self, name: str) -> int:
        return self.accounts.setdefault(name, len(self.accounts) + 1)

    def _move(
        self, debit: str, credit: str, user: str, fen: int, envelope_id: Any, kind: int, order: str, at: Any
    ) -> None:
        self.balances[debit] -= fen
        self.balances[credit] += fen
        self.transfers.append(
            (self._account(debit), self._account(credit), self._account(user), fen, envelope_id, at, kind, order)
        )

    async def write_set(self, dsn: str) -> None:
        """Write the rows of the SET as they are: no trigger looks at them, none makes payouts of them."""
        connection = await asyncpg.connect(dsn)
        try:
            await connection.execute("SET session_replication_role = replica")
            await connection.copy_records_to_table("envelope", records=self.headers, columns=HEADER)
            await connection.copy_records_to_table("claim", records=self.claims, columns=CLAIM)
            await connection.copy_records_to_table("due", records=self.dues, columns=("expires_at", "envelope_id"))
        finally:
            await connection.close()

    async def write_wallet(self, dsn: str) -> None:
        connection = await asyncpg.connect(dsn)
        kinds = {"user": 0, "escrow": 1, "outside": 2}
        try:
            await connection.executemany(
                "INSERT INTO account (account_id, name, kind, balance_fen) OVERRIDING SYSTEM VALUE VALUES ($1, $2, $3, $4)",
                [
                    (number, name, kinds[name.split(":")[0]], self.balances[name])
                    for name, number in self.accounts.items()
                ],
            )
            await connection.copy_records_to_table(
                "transfer", records=self.transfers,
                columns=("debit_account", "credit_account", "user_account", "amount_fen", "envelope_id", "created_at",
                         "kind", "order_no"),
            )  # fmt: skip
            await connection.copy_records_to_table(
                "fund",
                records=self.funds,
                columns=(
                    "envelope_id",
                    "user_account",
                    "total_fen",
                    "left_fen",
                    "created_at",
                    "create_key",
                    "fingerprint",
                    "header_hash",
                    "draft",
                ),
            )
            await connection.execute("SELECT setval('account_account_id_seq', 1000000)")
        finally:
            await connection.close()


def books(envelopes: int = 40) -> Books:
    """DAY with closed envelopes, the next day with some open ones."""
    made = Books()
    for _ in range(envelopes):
        made.add(DAY)
    for number in range(10):
        made.add(NEXT, closed=number % 2 == 0)
    return made


class FileArchive:
    """A small real archive: the rows of a day as JSON in one file, put in place in one step, compared when read back."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.exports = 0

    def path(self, xx: int, day: date) -> Path:
        return self.folder / f"{day}.{xx:02d}.json"

    async def export(self, connection: Any, *, xx: int, day: date, proof: Any) -> "WrittenFile":
        assert proof["unpaid"] == 0
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            rows = await _rows(connection, xx, day)
        self.exports += 1
        new = self.path(xx, day).with_suffix(".new")
        new.write_text(json.dumps(rows))
        new.replace(self.path(xx, day))
        return WrittenFile(rows)

    async def verify(self, connection: Any, *, xx: int, day: date) -> "WrittenFile":
        found = self.read(xx, day)
        if found.rows != await _rows(connection, xx, day):
            raise Refused("archive_differs", "the file has other rows than the tables")
        return found

    def read(self, xx: int, day: date) -> "WrittenFile":
        try:
            return WrittenFile(json.loads(self.path(xx, day).read_text()))
        except FileNotFoundError:
            raise Refused("archive_missing", "the file is missing") from None
        except ValueError:
            raise Refused("archive_corrupt", "the file cannot be read") from None


async def _rows(connection: Any, xx: int, day: date) -> dict[str, list[str]]:
    slots = f"slot BETWEEN {xx * 10} AND {xx * 10 + 9}"
    return {
        kind.value: [
            row["text"]
            for row in await connection.fetch(
                f"SELECT t::text AS text FROM {names.day_table(kind, day)} t WHERE {slots} ORDER BY 1"
            )
        ]
        for kind in TableKind
    }


class WrittenFile:
    """What the file says of itself; its sums are read off its rows."""

    def __init__(self, rows: dict[str, list[str]]) -> None:
        self.rows = rows
        self.digest = hashlib.sha256(json.dumps(rows).encode()).hexdigest()
        self.envelopes, self.claims = len(rows["envelope"]), len(rows["claim"])
        claims = [line.strip("()").split(",") for line in rows["claim"]]
        self.paid_in_fen = sum(int(line.strip("()").split(",")[1]) for line in rows["envelope"])
        self.claimed_fen = sum(int(one[1]) for one in claims if one[6] == "open")
        self.refunded_fen = sum(int(one[1]) for one in claims if one[6] != "open")


class OldDays:
    """A SET and a wallet, how to rotate their days, and what must be true of them."""

    def __init__(self, databases: Databases, set_dsn: str, wallet_dsn: str, folder: Path) -> None:
        self.databases = databases
        self.set_dsn, self.wallet_dsn = set_dsn, wallet_dsn
        self.clock = ManualClock(datetime(TODAY.year, TODAY.month, TODAY.day, 4, tzinfo=UTC))
        self.archive = FileArchive(folder)
        self.real: Archive | None = None
        self.set_access = SetAccess(
            "set-1", databases.dsn_as(set_dsn, roles.OWNER), databases.dsn_as(wallet_dsn, roles.AUDIT), lambda _: XXS
        )

    @property
    def rotation(self) -> Rotation:
        archive = ArchiveAdapter(self.real) if self.real else self.archive
        return Rotation(self.set_access, self.clock, archive)

    async def run(self, day: date = DAY, today: date = TODAY) -> dict[int, str]:
        return {xx: state.value for xx, state in (await self.rotation.run(day, today, BY)).states.items()}

    async def run_to(self, state: str, day: date = DAY) -> None:
        """Take the day to a state and no further."""
        await self.rotation.run(day, TODAY, BY, until=State(state))

    async def rows(self, query: str, *args: Any, wallet: bool = False) -> list[Any]:
        connection = await asyncpg.connect(self.wallet_dsn if wallet else self.set_dsn)
        try:
            return list(await connection.fetch(query, *args))
        finally:
            await connection.close()

    async def scalar(self, query: str, *args: Any, wallet: bool = False) -> Any:
        return (await self.rows(query, *args, wallet=wallet))[0][0]

    async def states(self, day: date = DAY) -> dict[int, str]:
        return dict(await self.rows("SELECT xx, state FROM day_register WHERE day = $1 ORDER BY xx", day))

    async def violations(self) -> list[Violation]:
        """Audit, hot days and cold ones; without the real archive, dropped days are not held against the SET."""
        own, wallet = (self.databases.dsn_as(dsn, roles.AUDIT) for dsn in (self.set_dsn, self.wallet_dsn))
        report = await audit([AuditTarget("set-1", own, range(20))], wallet, archive=self.real)
        return [one for one in report.violations if self.real or one.check != "cold_day_is_there"]

    async def lines(self, day: date = DAY) -> list[str]:
        """What the operation log says was done to a day."""
        return [row["what"] for row in await self.rows("SELECT what FROM operation_log WHERE day = $1 ORDER BY 1", day)]


async def believe_every_clock(dsn: str) -> None:
    """Let the database (its owner's DSN) believe whatever date its users go by: they live in another year."""
    connection = await asyncpg.connect(dsn)
    await connection.execute(
        "CREATE OR REPLACE FUNCTION business_today() RETURNS date LANGUAGE sql STABLE AS 'SELECT NULL::date'"
    )
    await connection.close()


async def build_old_set(dsn: str) -> None:
    await migrate_set(dsn)
    await believe_every_clock(dsn)
    await DayTables(dsn, XXS).ensure(DAY, ahead_days=1)


@asynccontextmanager
async def old_days_of(databases: Databases, folder: Path, made: Books) -> AsyncIterator[OldDays]:
    set_dsn = await databases.clone("old_set", build_old_set)
    wallet_dsn = await databases.clone("wallet", migrate_wallet)
    await made.write_set(set_dsn)
    await made.write_wallet(wallet_dsn)
    yield OldDays(databases, set_dsn, wallet_dsn, folder)


@pytest.fixture
async def old_days(databases: Databases, tmp_path: Path) -> AsyncIterator[OldDays]:
    """DAY closed and paid in two databases, the next day with open envelopes; the books agree."""
    async with old_days_of(databases, tmp_path, books()) as one:
        yield one


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_days(module_databases: Databases, tmp_path_factory: Any) -> AsyncIterator[OldDays]:
    """The same for a whole module whose tests leave the tables hot."""
    async with old_days_of(module_databases, tmp_path_factory.mktemp("archive"), books()) as one:
        yield one


@pytest_asyncio.fixture(loop_scope="module")
async def hot_days(shared_days: OldDays) -> AsyncIterator[OldDays]:
    """The module's days, with all rows as they were at first."""
    yield shared_days
    await shared_days.rows("TRUNCATE envelope, claim, guest, due, payout_batch, payout_stuck")
    await shared_days.rows("TRUNCATE account, transfer, fund", wallet=True)
    made = books()
    await made.write_set(shared_days.set_dsn)
    await made.write_wallet(shared_days.wallet_dsn)
