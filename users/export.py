"""`export`: what an installation holds of one user, record by record, with sums that must add up.

The wallet is read in one snapshot, taken before those of the SETs: so whatever it shows as paid has its claim or its
header there, and what it does not show yet is marked as not paid. Memory is bounded, whatever the user has.

Not in it: seeds and password MACs; names of other users; the seal of a header. A sum of shares of an envelope that is
open is not told either: the header says the total that the user paid in.
"""

from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol, Self, TypeAlias

from archive import store
from archive.of_user import UserInArchive
from audit.snapshot import DayPart, day_parts, in_tables, set_snapshot, snapshot
from errors import Refused
from runtime import sql
from runtime.postgres import Connection
from users.installed import Installed, SetPlace
from users.limits import BATCH, UNPAID_FUND_S
from users.progress import Progress
from users.tables import UserInTables
from wallet.postings import TransferKind
from wire.orders import payout_order

Record: TypeAlias = tuple[str, dict[str, Any]]
"""Its section, and what it says: IDs as text, `*_fen` in fen, `*_at` as ISO 8601 in UTC."""

SECTIONS = (
    "account",
    "transfers",
    "envelopes",
    "shares",
    "invitations",
    "daily_places",
    "stuck_payouts",
    "set_apart",
    "sums",
)
"""In the order in which records come; `account` and `sums` have one record, the others any number."""

_ACCOUNT = "SELECT account_id, balance_fen FROM account WHERE name = 'user:' || $1"
_TRANSFERS = """
SELECT transfer_id, order_no, kind, amount_fen, envelope_id, created_at, debit_account = user_account AS debited,
    credit_account = user_account AS credited
FROM transfer WHERE user_account = $1 ORDER BY transfer_id
"""
_YOUNG = """
SELECT f.envelope_id, f.total_fen FROM transfer t JOIN fund f ON f.envelope_id = t.envelope_id
WHERE t.user_account = $1 AND t.kind = 1 AND f.created_at > now() - $2 * interval '1 second'
"""
_PLACES = """
SELECT day, envelope_id, user_id = $1 AS winner, held FROM day_place WHERE user_id = $1 OR sender = $1 ORDER BY 1, 2
"""
_TOLD = ("transfer_id", "order_no", "amount_fen", "envelope_id", "created_at")
_SET_APART = "SELECT envelope_id, total_fen, reason, since FROM fund_set_apart WHERE sender = $1 ORDER BY fund_id"
_FUNDS = sql.read("users", "funds")
_ORDERS = sql.read("users", "orders")
_PENDING = sql.read("users", "pending")


class _Source(Protocol):
    """Rows of one user in one place: `UserInTables` or `UserInArchive`."""

    def headers(self) -> AsyncIterator[dict[str, Any]]: ...
    def claims(self) -> AsyncIterator[dict[str, Any]]: ...
    def guests(self) -> AsyncIterator[dict[str, Any]]: ...
    def closings(self, envelope_ids: list[int]) -> AsyncIterator[dict[str, Any]]: ...


@dataclass
class Sums:
    """In fen. Of the wallet: what its transfers say; of the SETs: what their rows say of what the wallet has paid.

    `paid_out_fen`: shares that a payment provider has paid, which are no part of the balance. `waiting_fen`: shares and
    refunds that the wallet's snapshot does not have. `beginning_fen`: creates whose header is not written yet.
    """

    deposited_fen: int = 0
    paid_in_fen: int = 0
    won_fen: int = 0
    paid_out_fen: int = 0
    refunded_fen: int = 0
    balance_fen: int = 0
    headers_fen: int = 0
    shares_fen: int = 0
    refunds_fen: int = 0
    waiting_fen: int = 0
    beginning_fen: int = 0
    records: int = 0

    def differences(self) -> list[str]:
        """Return a sentence for everything that does not add up; nothing if all does."""
        balance = self.deposited_fen - self.paid_in_fen + self.won_fen - self.paid_out_fen + self.refunded_fen
        compared = (
            ("the balance", self.balance_fen, "the transfers make", balance),
            (
                "paid in",
                self.paid_in_fen,
                "the headers and creates that begin say",
                self.headers_fen + self.beginning_fen,
            ),
            ("won", self.won_fen, "the shares say", self.shares_fen),
            ("refunded", self.refunded_fen, "the closing entries say", self.refunds_fen),
        )
        return [f"{what} is {one} fen, and {other} {fen}" for what, one, other, fen in compared if one != fen]


@dataclass
class Export:
    """One export: iterate over `records`; then `sums` are complete.

    Raises Refused `unknown_user`, `already_forgotten`, `user_being_forgotten`, `archive_corrupt` and as
    `archive.store.opened`; Unavailable.
    """

    at: Installed
    user: str
    progress: Progress = field(default_factory=Progress)
    sums: Sums = field(default_factory=Sums)
    _account: int | None = None
    _young: dict[int, int] = field(default_factory=dict)

    async def records(self) -> AsyncIterator[Record]:
        """Yield every record, by section in the order of SECTIONS; the last one has the sums."""
        async with AsyncExitStack() as stack:
            wallet = await snapshot(stack, self.at.wallet_audit_dsn)
            # The wallet's snapshot must be older than every SET's (see `audit`).
            sets = {one.name: await set_snapshot(stack, one.audit_dsn) for one in self.at.sets}
            await self._check_not_forgotten(wallet)
            account = await wallet.fetchrow(_ACCOUNT, self.user)
            if account is not None:
                self._account, self.sums.balance_fen = account["account_id"], account["balance_fen"]
                yield self._count("account", {"user": self.user, "balance_fen": account["balance_fen"]})
                async for record in self._transfers(wallet):
                    yield record
            async for record in self._of_sets(wallet, sets):
                yield record
            async for record in self._left_over(wallet, sets):
                yield record
            if not self.sums.records:
                await self._raise_unknown(wallet)
        self.sums.beginning_fen = sum(self._young.values())
        wrong = self.sums.differences()
        yield "sums", {**_plain(vars(self.sums)), "adds_up": not wrong, "differences": wrong}

    async def _check_not_forgotten(self, wallet: Connection) -> None:
        if await wallet.fetchval("SELECT EXISTS (SELECT FROM forgetting WHERE name = $1)", self.user):
            sentence = f"{self.user} is being forgotten: what is left of the name is no whole export"
            raise Refused("user_being_forgotten", sentence)

    async def _raise_unknown(self, wallet: Connection) -> None:
        before = await wallet.fetchval("SELECT day FROM forgotten WHERE name_mac = $1", self.at.name_mac(self.user))
        if before is not None:
            raise Refused("already_forgotten", f"{self.user} was forgotten on {before}; nothing is left of the name")
        raise Refused("unknown_user", f"there is no user {self.user}: no account and no row has the name")

    def _count(self, section: str, content: dict[str, Any]) -> Record:
        self.sums.records += 1
        self.progress.at(f"{self.sums.records} records, {section.replace('_', ' ')}")
        return section, content

    async def _transfers(self, wallet: Connection) -> AsyncIterator[Record]:
        sums = self.sums
        async for row in wallet.cursor(_TRANSFERS, self._account, prefetch=BATCH):
            kind, fen = TransferKind(row["kind"]), row["amount_fen"]
            if kind is TransferKind.DEPOSIT:
                sums.deposited_fen += fen
            elif kind is TransferKind.FUND:
                sums.paid_in_fen += fen
            elif kind is TransferKind.REFUND:
                sums.refunded_fen += fen
            else:
                sums.won_fen += fen
                sums.paid_out_fen += 0 if row["credited"] else fen
            said = _plain(
                {name: row[name] for name in ("transfer_id", "order_no", "amount_fen", "envelope_id", "created_at")}
            )
            outside = kind is TransferKind.CLAIM and not row["credited"]
            yield self._count("transfers", {**said, "kind": kind.name.lower(), "paid_outside": outside})
        for row in await wallet.fetch(_YOUNG, self._account, UNPAID_FUND_S):
            self._young[row["envelope_id"]] = row["total_fen"]

    async def _of_sets(self, wallet: Connection, sets: dict[str, Connection]) -> AsyncIterator[Record]:
        """Yield headers, then shares, then invitations: each in its own walk over all days."""
        for read in (self._envelopes, self._shares, self._invitations):
            for one in self.at.sets:
                for part in await day_parts(sets[one.name], one.slots_on):
                    self.progress.at(
                        f"{self.sums.records} records, still looking: {one.name}, the tables of {part.day}"
                    )
                    with self._opened(sets, one, part) as source:
                        async for record in read(wallet, source, part):
                            yield record

    async def _left_over(self, wallet: Connection, sets: dict[str, Connection]) -> AsyncIterator[Record]:
        async for row in wallet.cursor(_PLACES, self.user, prefetch=BATCH):
            yield self._count("daily_places", _plain(row))
        for name, connection in sets.items():
            for row in await connection.fetch(_PENDING, self.user):
                if row["stuck_at"] is not None:
                    yield self._count("stuck_payouts", {"set": name, **_plain(row)})
        for connection in sets.values():
            for row in await connection.fetch(_SET_APART, self.user):
                yield self._count("set_apart", _plain(row))

    def _opened(self, sets: dict[str, Connection], one: SetPlace, part: DayPart) -> Any:
        if part.xx is None:
            return _InTables(sets[one.name], part, self.user)
        digest = part.entries[part.xx].manifest_sha256
        return UserInArchive(store.opened(self.at.archive, xx=part.xx, day=part.day, digest=digest).where, self.user)

    async def _envelopes(self, wallet: Connection, source: _Source, part: DayPart) -> AsyncIterator[Record]:
        async for some in _batches(source.headers()):
            ids = [row["envelope_id"] for row in some]
            funds = {row["envelope_id"]: row for row in await wallet.fetch(_FUNDS, ids)}
            closings = {row["envelope_id"]: row async for row in source.closings(ids)}
            paid = await self._paid(wallet, closings.values())
            for row in some:
                envelope_id, end = row["envelope_id"], closings.get(row["envelope_id"])
                if envelope_id in funds and funds[envelope_id]["user_account"] == self._account:
                    self.sums.headers_fen += row["total_fen"]
                    self._young.pop(envelope_id, None)
                if end is not None:
                    self._add(end, paid, "refunds_fen")
                yield self._count("envelopes", _envelope(row, end, archived=not part.hot))

    async def _shares(self, wallet: Connection, source: _Source, part: DayPart) -> AsyncIterator[Record]:
        async for some in _batches(source.claims()):
            paid = await self._paid(wallet, some)
            for row in some:
                said = {
                    "envelope_id": str(row["envelope_id"]),
                    "seq": row["seq"],
                    "amount_fen": row["amount_fen"],
                    "claimed_at": _instant(row["at_ms"]),
                    "paid": self._add(row, paid, "shares_fen"),
                    "archived": not part.hot,
                }
                yield self._count("shares", said)

    async def _invitations(self, wallet: Connection, source: _Source, part: DayPart) -> AsyncIterator[Record]:
        del wallet
        async for row in source.guests():
            said = {"invited": row["invited"], "wrong_tries": row["wrong_tries"], "archived": not part.hot}
            yield self._count("invitations", {"envelope_id": str(row["envelope_id"]), **said})

    async def _paid(self, wallet: Connection, rows: Iterable[Any]) -> dict[str, int]:
        """Return the amounts, by order number, that the wallet's snapshot shows as paid to this user."""
        orders = [payout_order(row["envelope_id"], row["seq"]) for row in rows]
        found = await wallet.fetch(_ORDERS, orders) if orders else []
        return {row["order_no"]: row["amount_fen"] for row in found if row["user_account"] == self._account}

    def _add(self, row: Any, paid: dict[str, int], name: str) -> bool:
        """Add an entry of a log to the sum `name`, if it is paid, else to what waits; returns which."""
        is_paid = payout_order(row["envelope_id"], row["seq"]) in paid
        name = name if is_paid else "waiting_fen"
        setattr(self.sums, name, getattr(self.sums, name) + row["amount_fen"])
        return is_paid


class _InTables(UserInTables):
    """The rows of one part, in the snapshot of its SET."""

    def __init__(self, connection: Connection, part: DayPart, user: str) -> None:
        super().__init__(connection, part.day, user, part.slots, in_tables(part))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def _envelope(row: Any, end: Any, *, archived: bool) -> dict[str, Any]:
    return {
        "envelope_id": str(row["envelope_id"]),
        "kind": row["kind"],
        "split": row["split"],
        "total_fen": row["total_fen"],
        "count": row["shares"],
        "greeting": row["greeting"],
        "named": row["named"],
        "with_password": row["password_mac"] is not None,
        "min_fen": row["min_fen"],
        "max_fen": row["max_fen"],
        "created_at": _instant(row["created_at_ms"]),
        "opens_at": _instant(row["opens_at_ms"]),
        "expires_at": _instant(row["expires_at_ms"]),
        "closed": None if end is None else end["kind"],
        "closed_at": None if end is None else _instant(end["at_ms"]),
        "refund_fen": 0 if end is None else end["amount_fen"],
        "archived": archived,
    }


async def _batches(rows: AsyncIterator[dict[str, Any]]) -> AsyncIterator[list[dict[str, Any]]]:
    some = []
    async for row in rows:
        some.append(row)
        if len(some) == BATCH:
            yield some
            some = []
    if some:
        yield some


def _plain(row: Any) -> dict[str, Any]:
    """Return a row as JSON has it: IDs as text, instants and days in ISO 8601."""
    found = {}
    for name, value in dict(row).items():
        if name.endswith("_id") and value is not None:
            found[name] = str(value)
        else:
            found[name] = value.isoformat() if hasattr(value, "isoformat") else value
    return found


def _instant(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")
