"""Finds what the SETs know of and the wallet does not: creates without their fund, claims without their credit."""

import heapq
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from datetime import date
from typing import Any

from audit.day import FUNDS
from audit.envelopes import replay
from audit.matching import check_fund, is_the_sweepers
from audit.merge_cursor import MergeCursor
from audit.proof import PENDING_PAYOUTS, AuditTarget
from audit.report import Report
from audit.snapshot import DayPart, day_parts, set_snapshot, snapshot
from envelope.claim_log import ClaimLog
from envelope.header_hash import header_hash
from errors import InvariantBroken
from recovery.compared import compared, nothing
from recovery.limits import OUT_OF_ORDER_MS
from runtime import postgres
from runtime.postgres import Connection
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


@dataclass(frozen=True)
class LostEnvelope:
    """What the wallet lacks of one envelope: its fund, unless that stands, and credits, in the order of its log.

    `broken` says why its rows are not to be believed, so that nothing of it may be done.
    """

    set_name: str
    envelope_id: int
    at_ms: int
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

    def add(self, one: LostEnvelope) -> None:
        """Count what is lost of an envelope."""
        self.credits += len(one.credits)
        self.credits_fen += sum(order.amount_fen for order in one.credits)
        if one.fund is not None:
            self.funds += 1
            self.funds_fen += one.fund.total_fen


async def find_lost(
    targets: Sequence[AuditTarget], wallet_dsn: str, seal: HeaderSeal, lost: Lost, since: date | None = None
) -> AsyncGenerator[LostEnvelope]:
    """Yield what all SETs miss, in order of creation, and count it in `lost`. Reads only, and keeps no list.

    Only within days that the archive has, and that are not dropped yet, the order may be another. Of business days from
    `since` on (None: of all that are in Postgres); `seal` is the setnodes'. The wallet is read after the SET: what the
    SET shows as done by then, the wallet has, unless it was lost. Days that are dropped are left out; their money was
    final long ago, and the audit proves it. Raises Unavailable if a database is away, or goes away meanwhile.
    """
    with postgres.loss_told("while the SETs were compared with the wallet; call it again"):
        heads: list[tuple[int, int, LostEnvelope]] = []
        newest_ms = 0
        async with aclosing(_by_id(targets, wallet_dsn, seal, lost, since)) as found:
            async for one in found:
                newest_ms = max(newest_ms, one.at_ms)
                heapq.heappush(heads, (one.at_ms, one.envelope_id, one))
                # Within a second IDs are in order of slot.
                while heads[0][0] < newest_ms - OUT_OF_ORDER_MS:
                    yield _counted(heapq.heappop(heads)[-1], lost)
        while heads:
            yield _counted(heapq.heappop(heads)[-1], lost)


def _counted(one: LostEnvelope, lost: Lost) -> LostEnvelope:
    lost.add(one)
    return one


async def _by_id(
    targets: Sequence[AuditTarget], wallet_dsn: str, seal: HeaderSeal, lost: Lost, since: date | None
) -> AsyncGenerator[LostEnvelope]:
    """Merge what the SETs miss, by ascending ID."""
    async with AsyncExitStack() as stack:
        sources = [_of_set(one, wallet_dsn, seal, lost, since) for one in targets]
        for source in sources:
            await stack.enter_async_context(aclosing(source))
        heads: list[tuple[int, int, LostEnvelope]] = []
        for number, source in enumerate(sources):
            if (first := await anext(source, None)) is not None:
                heapq.heappush(heads, (first.envelope_id, number, first))
        while heads:
            _, number, one = heads[0]
            yield one
            following = await anext(sources[number], None)
            if following is None:
                heapq.heappop(heads)
            else:
                heapq.heapreplace(heads, (following.envelope_id, number, following))


async def _of_set(
    target: AuditTarget, wallet_dsn: str, seal: HeaderSeal, lost: Lost, since: date | None
) -> AsyncGenerator[LostEnvelope]:
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
) -> AsyncIterator[LostEnvelope]:
    low, high = first_id(part.day), end_id(part.day)
    on_their_way = MergeCursor.of(connection, _PENDING, low, high, orphan=nothing)
    funds = MergeCursor.of(wallet, FUNDS, low, high, sorted(part.slots), orphan=nothing)
    async for envelope_id, header, logged, named, paid in compared(connection, wallet, part):
        lost.envelopes += 1
        known = {row["order_no"] for row in paid}
        stands = await funds.advance_to(envelope_id)
        waiting = {row["seq"] for row in await on_their_way.advance_to(envelope_id)}
        owed = [row for row in logged if row["seq"] not in waiting]
        missing = [_order(header, row) for row in owed if payout_order(envelope_id, row["seq"]) not in known]
        if stands and not missing:
            continue
        log, broken = _believed(header, logged, named, stands, seal)
        fund = None if stands else _fund(name, header, log)
        # What is not believed may be dated as it likes: nothing of it is done, and nothing else is to come after it.
        yield LostEnvelope(name, envelope_id, 0 if broken else header["created_at_ms"], fund, missing, broken)


def _believed(
    header: Any, logged: Sequence[Any], named: frozenset[str], funds: Sequence[Any], seal: HeaderSeal
) -> tuple[ClaimLog | None, str]:
    """Return the envelope's log, and why its rows are not to be believed, if so.

    They are if a setnode would serve the envelope from them, and if the header is the one that its fund has paid for;
    where there is no fund, the seal is what ties the header to its create. Whoever can write into a SET has no seal.
    """
    report = Report()
    log = replay(header, logged, named, report)
    if log is None:
        return None, report.violations[0].detail
    try:
        seal.check(log.terms)
    except InvariantBroken as broken:
        return log, broken.detail
    if funds:
        before = report.count
        check_fund(log, funds[0], report)
        return log, report.violations[-1].detail if report.count > before else ""
    if log.terms.seal is None and not is_the_sweepers(log):
        return log, "its header has no seal, and no fund tells whose it is"
    return log, ""


def _fund(name: str, header: Any, log: ClaimLog | None) -> LostFund:
    """Return the lost fund of a header; without a log one that is only to be named."""
    envelope_id = header["envelope_id"]
    # What the sweeper has undone has no create of its own: it is paid in once more, and back, so that the books say so.
    key = header["create_key"] or f"undone-{envelope_id}"
    hashed = b"" if log is None else header_hash(log.terms)
    return LostFund(name, envelope_id, header["sender"] or "", header["total_fen"] or 0, key, hashed)


def _order(header: Any, row: Any) -> Order:
    """Return the order of a claim as its payer makes it: to who opened, or what is left to the sender.

    What is missing in rows that are not believed is empty.
    """
    user, envelope_id = row["user_id"], header["envelope_id"]
    kind = PayKind.CLAIM if user else PayKind.REFUND
    order_no = payout_order(envelope_id, row["seq"])
    return Order(order_no, int(kind), user or header["sender"] or "", row["amount_fen"] or 0, envelope_id)
