"""The rules of one batch, pure: the answer to each request and the postings it needs, in order of arrival.

The first, optimistic, attempt runs them with `Known.nothing()`: as if no order had been seen before and every account
had the money. That is nearly always true; if not, UNIQUE or CHECK refuses the batch, and a careful attempt runs them
again with what the database knows about these orders and accounts, read under the ledger's lock.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from errors import Refused
from wallet.postings import OUTSIDE, FundRow, Posting, TransferKind, user_account
from wallet.requests import DepositRequest, FundRequest, PayOrder, PayRequest, WalletRequest
from wire.messages import PAID, FundStatus, PayKind, PayResult, PayStatus
from wire.orders import escrow_account, fund_order

CONFLICT = PayResult(PayStatus.REFUSED, "order_conflict")
SHORT = PayResult(PayStatus.REFUSED, "escrow_short")
OVERPAID = PayResult(PayStatus.REFUSED, "fund_exceeded")


@dataclass(slots=True)
class Known:
    """What is known before deciding; all of it is committed, or accepted earlier in the same batch.

    `orders`: by order number. `funds`: fingerprint, envelope ID and draft by create key. `taken`: envelope IDs of
    creates. `balances`: fen by account name; `left`: fen left of the fund by envelope ID. None: all have enough.
    """

    orders: dict[str, Posting] = field(default_factory=dict)
    funds: dict[str, tuple[str, int, bytes]] = field(default_factory=dict)
    taken: set[int] = field(default_factory=set)
    balances: dict[str, int] | None = None
    left: dict[int, int] | None = None

    @classmethod
    def nothing(cls) -> "Known":
        """Return the assumptions of an optimistic attempt."""
        return cls()


@dataclass(slots=True)
class Plan:
    """The answer to each request, in order, and the rows to write.

    Answers: of a PAY a list of PayResult; of a FUND (FundStatus, envelope ID and draft of the first attempt); of a
    DEPOSIT the account's name until the ledger replaces it by the balance in fen. A `Refused` is the error of that
    caller alone.
    """

    answers: list[Any] = field(default_factory=list)
    postings: list[Posting] = field(default_factory=list)
    funds: list[FundRow] = field(default_factory=list)
    replays: int = 0

    @property
    def needs_balances(self) -> bool:
        """Whether a deposit awaits its balance."""
        return any(isinstance(answer, str) for answer in self.answers)


def decide(requests: Sequence[WalletRequest], known: Known) -> Plan:
    """Decide `requests` in order; `known` is updated with what is accepted."""
    plan = Plan()
    for request in requests:
        if isinstance(request, PayRequest):
            plan.answers.append([_pay(order, request.through, known, plan) for order in request.orders])
        elif isinstance(request, FundRequest):
            plan.answers.append(_fund(request, known, plan))
        else:
            plan.answers.append(_deposit(request, known, plan))
    return plan


def _pay(order: PayOrder, through: str | None, known: Known, plan: Plan) -> PayResult:
    user = user_account(order.user)
    posting = Posting(
        order.order_no,
        TransferKind.CLAIM if order.kind == PayKind.CLAIM else TransferKind.REFUND,
        escrow_account(order.envelope_id),
        through or user,
        user,
        order.amount_fen,
        order.envelope_id,
    )
    first = known.orders.get(order.order_no)
    if first is not None:
        plan.replays += 1
        return PAID if first.same_order(posting) else CONFLICT
    left = known.left
    if left is not None and left.get(order.envelope_id, 0) < order.amount_fen:
        return OVERPAID
    if not _move(posting, known, plan):
        return SHORT
    if left is not None:
        left[order.envelope_id] -= order.amount_fen
    return PAID


def _fund(request: FundRequest, known: Known, plan: Plan) -> tuple[int, int, bytes] | Refused:
    first = known.funds.get(request.create_key)
    if first is not None:
        plan.replays += 1
        fingerprint, envelope_id, draft = first
        if fingerprint == request.fingerprint:
            return FundStatus.REPLAYED, envelope_id, draft
        return FundStatus.KEY_REUSED, envelope_id, b""
    if request.envelope_id in known.taken:
        return FundStatus.ID_TAKEN, request.envelope_id, b""
    user = user_account(request.user)
    escrow = escrow_account(request.envelope_id)
    order_no = fund_order(request.create_key)
    if order_no in known.orders:
        return Refused("order_conflict", f"order {order_no} is not a create's; nothing was moved")
    posting = Posting(order_no, TransferKind.FUND, user, escrow, user, request.total_fen, request.envelope_id)
    if not _move(posting, known, plan):
        return FundStatus.INSUFFICIENT, request.envelope_id, b""
    plan.funds.append(
        FundRow(
            request.create_key,
            request.fingerprint,
            user,
            request.total_fen,
            request.envelope_id,
            request.header_hash,
            request.draft,
        )
    )
    known.funds[request.create_key] = (request.fingerprint, request.envelope_id, request.draft)
    known.taken.add(request.envelope_id)
    if known.left is not None:
        known.left[request.envelope_id] = request.total_fen
    return FundStatus.DONE, request.envelope_id, b""


def _deposit(request: DepositRequest, known: Known, plan: Plan) -> str | Refused:
    user = user_account(request.user)
    posting = Posting(request.order_no, TransferKind.DEPOSIT, OUTSIDE, user, user, request.amount_fen, None)
    first = known.orders.get(request.order_no)
    if first is None:
        _move(posting, known, plan)
        return user
    plan.replays += 1
    if first.same_order(posting):
        return user
    was = (
        f"{first.amount_fen} fen to {first.user.removeprefix('user:')}"
        if first.kind == TransferKind.DEPOSIT
        else "no deposit"
    )
    return Refused("order_conflict", f"order {request.order_no} was a different payment, {was}; use a new number")


def _move(posting: Posting, known: Known, plan: Plan) -> bool:
    """Add the posting to the plan; return False, without it, if the account to debit lacks the money."""
    balances = known.balances
    if balances is not None:
        before_fen = balances.get(posting.debit, 0)
        if before_fen < posting.amount_fen and posting.debit != OUTSIDE:
            return False
        balances[posting.debit] = before_fen - posting.amount_fen
        balances[posting.credit] = balances.get(posting.credit, 0) + posting.amount_fen
    known.orders[posting.order_no] = posting
    plan.postings.append(posting)
    return True
