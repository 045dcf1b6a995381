"""Finds what the SETs know of and the wallet does not: creates without their fund, claims without their credit."""

from collections import defaultdict
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from audit.day import FUNDS, PAYOUTS
from audit.merge_cursor import MergeCursor
from audit.proof import PENDING_PAYOUTS, AuditTarget
from audit.snapshot import DayPart, day_parts, from_postgres, set_snapshot, snapshot
from envelope.header_hash import header_hash
from runtime.postgres import Connection
from schema.headers import read_terms
from sharding.ids import end_id, first_id
from wire.messages import PayKind
from wire.orders import payout_order
from wire.wallet import Order


@dataclass(frozen=True)
class LostFund:
    """A create whose envelope stands, and whose money the wallet does not know to be in escrow."""

    set_name: str
    envelope_id: int
    sender: str
    total_fen: int
    create_key: str
    header_hash: bytes
    at_ms: int


@dataclass
class Lost:
    """What one or several SETs miss in the wallet; credits by SET, in order of envelope."""

    funds: list[LostFund] = field(default_factory=list)
    credits: dict[str, list[Order]] = field(default_factory=lambda: defaultdict(list))
    envelopes: int = 0
    """That were looked at."""

    @property
    def funds_fen(self) -> int:
        """What was paid in for the funds."""
        return sum(one.total_fen for one in self.funds)

    @property
    def credit_count(self) -> int:
        """How many credits."""
        return sum(map(len, self.credits.values()))

    @property
    def credits_fen(self) -> int:
        """What the credits come to."""
        return sum(order.amount_fen for some in self.credits.values() for order in some)


async def find_lost(target: AuditTarget, wallet_dsn: str, lost: Lost, since: date | None = None) -> None:
    """Add to `lost` what this SET misses, of business days from `since` on (None: of all that are in Postgres).

    Reads only, as the audit's role. The wallet is read after the SET: what the SET shows as done by then, the wallet
    has, unless it was lost. Days that are dropped are left out; their money was final long ago, and the audit proves
    it. Raises what the audit's snapshots raise.
    """
    async with AsyncExitStack() as stack:
        connection = await set_snapshot(stack, target.dsn)
        pending: dict[int, set[int]] = defaultdict(set)
        for row in await connection.fetch(PENDING_PAYOUTS):
            pending[row["envelope_id"]].add(row["seq"])
        wallet = await snapshot(stack, wallet_dsn)
        for part in await day_parts(connection, target.on):
            if part.xx is None and (since is None or part.day >= since):
                await _look(connection, wallet, part, target.name, pending, lost)


async def _look(
    connection: Connection, wallet: Connection, part: DayPart, name: str, pending: dict[int, set[int]], lost: Lost
) -> None:
    low, high, slots = first_id(part.day), end_id(part.day), sorted(part.slots)
    rows = from_postgres(connection, part)
    claims, receivers = MergeCursor(rows.claims), MergeCursor(rows.receivers)
    paid = MergeCursor.of(wallet, PAYOUTS, str(low), str(high), slots, orphan=_nothing)
    funds = MergeCursor.of(wallet, FUNDS, low, high, slots, orphan=_nothing)
    async for header in rows.headers:
        lost.envelopes += 1
        envelope_id = header["envelope_id"]
        logged = await claims.advance_to(envelope_id)
        named = frozenset(row["user_id"] for row in await receivers.advance_to(envelope_id))
        known = {row["order_no"] for row in await paid.advance_to(envelope_id)}
        if not await funds.advance_to(envelope_id):
            lost.funds.append(_fund(name, header, named))
        waiting = pending.get(envelope_id, ())
        missing = [_order(header, row) for row in logged if row["seq"] not in waiting]
        lost.credits[name] += [order for order in missing if order.order_no not in known]


def _fund(name: str, header: Any, named: frozenset[str]) -> LostFund:
    terms = read_terms(header, named if header["named"] else None)
    return LostFund(
        name,
        terms.envelope_id,
        terms.sender,
        terms.total_fen,
        terms.create_key,
        header_hash(terms),
        terms.created_at_ms,
    )


def _order(header: Any, row: Any) -> Order:
    """Return the order of a claim as its payer makes it: to who opened, or what is left to the sender."""
    user, envelope_id = row["user_id"], header["envelope_id"]
    kind = PayKind.CLAIM if user else PayKind.REFUND
    order_no = payout_order(envelope_id, row["seq"])
    return Order(order_no, int(kind), user or header["sender"], row["amount_fen"], envelope_id)


def _nothing(_row: Any) -> None:
    """Leave a row of the wallet alone that no envelope here belongs to: the audit and the sweeper look at it."""
