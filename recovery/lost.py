"""Finds what the SETs know of and the wallet does not: creates without their fund, claims without their credit."""

import heapq
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from datetime import date
from typing import Any

from audit.day import FUNDS, PAYOUTS
from audit.envelopes import replay
from audit.merge_cursor import MergeCursor
from audit.proof import PENDING_PAYOUTS, AuditTarget
from audit.report import Report
from audit.snapshot import DayPart, day_parts, from_postgres, set_snapshot, snapshot
from envelope.header_hash import header_hash
from errors import InvariantBroken
from runtime.postgres import Connection
from schema.headers import read_terms
from setnode.header_seal import HeaderSeal
from sharding.ids import end_id, first_id
from wire.messages import PayKind
from wire.orders import payout_order
from wire.wallet import Order

_PENDING = f"""SELECT envelope_id, seq FROM ({PENDING_PAYOUTS}) AS pending
WHERE envelope_id >= $1 AND envelope_id < $2 ORDER BY envelope_id"""  # noqa: S608 - of a statement of ours


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


@dataclass(frozen=True)
class LostOf:
    """What the wallet lacks of one envelope: its fund, unless that stands, and credits, in the order of its log.

    `broken` says why its rows are not to be believed, so that nothing of it may be done: a setnode would freeze it.
    """

    set_name: str
    envelope_id: int
    fund: LostFund | None
    credits: Sequence[Order]
    broken: str = ""


@dataclass
class Lost:
    """What the wallet lacks, in numbers and fen; `envelopes` were looked at."""

    envelopes: int = 0
    funds: int = 0
    funds_fen: int = 0
    credits: int = 0
    credits_fen: int = 0

    def add(self, one: LostOf) -> None:
        """Count what is lost of an envelope."""
        self.credits += len(one.credits)
        self.credits_fen += sum(order.amount_fen for order in one.credits)
        if one.fund is not None:
            self.funds += 1
            self.funds_fen += one.fund.total_fen


async def find_lost(
    targets: Sequence[AuditTarget], wallet_dsn: str, seal: HeaderSeal, lost: Lost, since: date | None = None
) -> AsyncGenerator[LostOf]:
    """Yield what SETs miss, in order of creation as far as their days are hot, over all SETs. Counts it in `lost`.

    Of business days from `since` on (None: of all that are in Postgres); `seal` is the setnodes'. Reads only, as the
    audit's role, and keeps no list. The wallet is read after the SET: what the SET shows as done by then, the wallet
    has, unless it was lost. Days that are dropped are left out; their money was final long ago, and the audit proves
    it. Raises what the audit's snapshots raise.
    """
    async with AsyncExitStack() as stack:
        sources = [
            await stack.enter_async_context(aclosing(_of_set(one, wallet_dsn, seal, lost, since))) for one in targets
        ]
        heads: list[tuple[int, int, LostOf]] = []
        for number, source in enumerate(sources):
            if (first := await anext(source, None)) is not None:
                heapq.heappush(heads, (first.envelope_id, number, first))
        while heads:
            _, number, one = heads[0]
            lost.add(one)
            yield one
            following = await anext(sources[number], None)
            if following is None:
                heapq.heappop(heads)
            else:
                heapq.heapreplace(heads, (following.envelope_id, number, following))


async def _of_set(
    target: AuditTarget, wallet_dsn: str, seal: HeaderSeal, lost: Lost, since: date | None
) -> AsyncGenerator[LostOf]:
    """Yield what one SET misses, day by day."""
    async with AsyncExitStack() as stack:
        connection = await set_snapshot(stack, target.dsn)
        wallet = await snapshot(stack, wallet_dsn)
        for part in await day_parts(connection, target.on):
            if part.xx is None and (since is None or part.day >= since):
                async for one in _of_day(connection, wallet, part, target.name, seal, lost):
                    yield one


async def _of_day(
    connection: Connection, wallet: Connection, part: DayPart, name: str, seal: HeaderSeal, lost: Lost
) -> AsyncIterator[LostOf]:
    low, high, slots = first_id(part.day), end_id(part.day), sorted(part.slots)
    rows = from_postgres(connection, part)
    claims, receivers = MergeCursor(rows.claims), MergeCursor(rows.receivers)
    on_their_way = MergeCursor.of(connection, _PENDING, low, high, orphan=_nothing)
    paid = MergeCursor.of(wallet, PAYOUTS, str(low), str(high), slots, orphan=_nothing)
    funds = MergeCursor.of(wallet, FUNDS, low, high, slots, orphan=_nothing)
    async for header in rows.headers:
        lost.envelopes += 1
        envelope_id = header["envelope_id"]
        logged = await claims.advance_to(envelope_id)
        named = frozenset(row["user_id"] for row in await receivers.advance_to(envelope_id))
        known = {row["order_no"] for row in await paid.advance_to(envelope_id)}
        stands = await funds.advance_to(envelope_id)
        waiting = {row["seq"] for row in await on_their_way.advance_to(envelope_id)}
        owed = [row for row in logged if row["seq"] not in waiting]
        missing = [row for row in owed if payout_order(envelope_id, row["seq"]) not in known]
        if stands and not missing:
            continue
        broken = _broken(header, logged, named, seal)
        fund = None if stands else _fund(name, header, None if broken else named)
        yield LostOf(name, envelope_id, fund, [_order(header, row) for row in missing], broken)


def _broken(header: Any, logged: Sequence[Any], named: frozenset[str], seal: HeaderSeal) -> str:
    """Say why a setnode would not serve the envelope from these rows, as at each load; empty if it would."""
    report = Report()
    log = replay(header, logged, named, report)
    if log is None:
        return report.violations[0].detail
    try:
        seal.check(log.terms)
    except InvariantBroken as broken:
        return broken.detail
    return ""


def _fund(name: str, header: Any, named: frozenset[str] | None) -> LostFund:
    """Return the lost fund of a header; without its receivers (None) one that is only to be named."""
    hashed = b""
    if named is not None:
        hashed = header_hash(read_terms(header, named if header["named"] else None))
    return LostFund(
        name,
        header["envelope_id"],
        header["sender"],
        header["total_fen"],
        header["create_key"],
        hashed,
        header["created_at_ms"],
    )


def _order(header: Any, row: Any) -> Order:
    """Return the order of a claim as its payer makes it: to who opened, or what is left to the sender."""
    user, envelope_id = row["user_id"], header["envelope_id"]
    kind = PayKind.CLAIM if user else PayKind.REFUND
    order_no = payout_order(envelope_id, row["seq"])
    return Order(order_no, int(kind), user or header["sender"], row["amount_fen"], envelope_id)


def _nothing(_row: Any) -> None:
    """Leave a row of the wallet alone that no envelope here belongs to: the audit and the sweeper look at it."""
