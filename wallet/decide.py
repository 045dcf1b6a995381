"""The rules of one batch, pure: what each request gets, and which postings that means, in order of arrival.

First they run with `Known.nothing()`: no order was seen before and everybody has the money, which is nearly always
true, and the database's UNIQUE and CHECK refute it where it is not. Then, and only then, they run with what the
database says about exactly these orders and accounts, read under the ledger's lock.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from envelope.errors import Refused
from wallet.postings import OUTSIDE, FundRow, Kind, Posting, user_account
from wallet.requests import DepositRequest, FundRequest, PayOrder, PayRequest, Request
from wire.messages import Fund, Pay
from wire.orders import escrow_account, fund_order

PAID: tuple[int, str | None] = (int(Pay.PAID), None)
CONFLICT: tuple[int, str | None] = (int(Pay.REFUSED), "order_conflict")
SHORT: tuple[int, str | None] = (int(Pay.REFUSED), "escrow_short")

_DEPOSIT, _FUND = int(Kind.DEPOSIT), int(Kind.FUND)
_KIND_OF = (int(Kind.CLAIM), int(Kind.REFUND))
"""By `PayKind`. Numbers, because an enumeration is slow to look into and slow to add to."""


@dataclass(slots=True)
class Known:
    """What is known before deciding. `balances` (by account name) is None while everybody is trusted to have it."""

    orders: dict[str, Posting] = field(default_factory=dict)
    funds: dict[str, tuple[str, int]] = field(default_factory=dict)
    taken: set[int] = field(default_factory=set)
    balances: dict[str, int] | None = None

    @classmethod
    def nothing(cls) -> "Known":
        """Return the optimist's knowledge."""
        return cls()


@dataclass(slots=True)
class Plan:
    """The answer to each request (a DEPOSIT's is its user's account name until balances are read), and what to write.

    A `Refused` among the answers is raised to that caller alone.
    """

    answers: list[Any] = field(default_factory=list)
    postings: list[Posting] = field(default_factory=list)
    funds: list[FundRow] = field(default_factory=list)
    replays: int = 0

    @property
    def asks_balances(self) -> bool:
        """Whether a balance must be read before this can be answered."""
        return any(isinstance(answer, str) for answer in self.answers)


def decide(requests: Sequence[Request], known: Known) -> Plan:
    """Decide `requests` in order; `known` is moved forward by what is accepted."""
    plan = Plan()
    for request in requests:
        if isinstance(request, PayRequest):
            plan.answers.append([_pay(order, request.through, known, plan) for order in request.orders])
        elif isinstance(request, FundRequest):
            plan.answers.append(_fund(request, known, plan))
        else:
            plan.answers.append(_deposit(request, known, plan))
    return plan


def _pay(order: PayOrder, through: str | None, known: Known, plan: Plan) -> tuple[int, str | None]:
    user = user_account(order.user)
    posting = Posting(
        order.order_no,
        _KIND_OF[order.kind],
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
    return PAID if _move(posting, known, plan) else SHORT


def _fund(request: FundRequest, known: Known, plan: Plan) -> tuple[int, int] | Refused:
    first = known.funds.get(request.create_key)
    if first is not None:
        plan.replays += 1
        fingerprint, envelope_id = first
        same = fingerprint == request.fingerprint
        return (Fund.REPLAYED if same else Fund.KEY_REUSED), envelope_id
    if request.envelope_id in known.taken:
        return Fund.ID_TAKEN, request.envelope_id
    user = user_account(request.user)
    escrow = escrow_account(request.envelope_id)
    order_no = fund_order(request.create_key)
    if order_no in known.orders:
        return Refused("order_conflict", f"order {order_no} is not a create's; nothing was moved")
    posting = Posting(order_no, _FUND, user, escrow, user, request.total_fen, request.envelope_id)
    if not _move(posting, known, plan):
        return Fund.INSUFFICIENT, request.envelope_id
    row = FundRow(request.create_key, request.fingerprint, user, request.total_fen, request.envelope_id)
    plan.funds.append(row)
    known.funds[request.create_key] = (request.fingerprint, request.envelope_id)
    known.taken.add(request.envelope_id)
    return Fund.DONE, request.envelope_id


def _deposit(request: DepositRequest, known: Known, plan: Plan) -> str | Refused:
    user = user_account(request.user)
    posting = Posting(request.order_no, _DEPOSIT, OUTSIDE, user, user, request.amount_fen, None)
    first = known.orders.get(request.order_no)
    if first is None:
        _move(posting, known, plan)
        return user
    plan.replays += 1
    if first.same_order(posting):
        return user
    return Refused("order_conflict", f"order {request.order_no} was a different payment; use a new number")


def _move(posting: Posting, known: Known, plan: Plan) -> bool:
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
