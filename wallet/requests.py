"""Requests from links, validated: from here on every value fits its column and every amount is within bounds."""

import re
from collections.abc import Sequence
from typing import Annotated, Any, Final, TypeAlias, TypeVar

import msgspec

from errors import InvariantBroken, Refused
from sharding.ids import day_of
from wallet.limits import DRAFT_BYTES, HASH_BYTES, MAX_AMOUNT_FEN, MAX_ORDERS_PER_PAY, ORDER_CHARS, USER_CHARS
from wire.messages import PayKind

Amount: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=MAX_AMOUNT_FEN)]
EnvelopeId: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]
User: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=USER_CHARS)]
OrderNo: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=ORDER_CHARS)]


class FundRequest(msgspec.Struct, array_like=True, frozen=True):
    """Move the money of a create from its sender into escrow, once per `create_key`.

    `header_hash` (of the header, `envelope.header_hash`) and `draft` are stored with it; a repeat gets the first
    attempt's draft back.
    """

    create_key: Annotated[str, msgspec.Meta(min_length=1, max_length=32)]
    fingerprint: Annotated[str, msgspec.Meta(max_length=64)]
    user: User
    total_fen: Amount
    envelope_id: EnvelopeId
    header_hash: Annotated[bytes, msgspec.Meta(min_length=HASH_BYTES, max_length=HASH_BYTES)]
    draft: Annotated[bytes, msgspec.Meta(max_length=DRAFT_BYTES)]

    @property
    def size(self) -> int:
        """Postings this request may write."""
        return 1


class PayOrder(msgspec.Struct, array_like=True, frozen=True):
    """One credit out of an escrow; `order_no` is that of a claim of the envelope (`wire.orders.payout_order`)."""

    order_no: OrderNo
    kind: PayKind
    user: User
    amount_fen: Amount
    envelope_id: EnvelopeId


class PayRequest(msgspec.Struct, frozen=True):
    """Post `orders`; if a provider has paid the users, `through` is the account that is credited instead of theirs."""

    orders: Sequence[PayOrder]
    through: str | None = None

    @property
    def size(self) -> int:
        """Postings this request may write."""
        return len(self.orders)


class DepositRequest(msgspec.Struct, array_like=True, frozen=True):
    """Credit a user from the outside world; `order_no` is the operator's own, never one of a create or a payout."""

    order_no: OrderNo
    user: User
    amount_fen: Amount

    @property
    def size(self) -> int:
        """Postings this request may write."""
        return 1


WalletRequest: TypeAlias = FundRequest | PayRequest | DepositRequest

T = TypeVar("T")
_Orders: TypeAlias = Annotated[list[PayOrder], msgspec.Meta(max_length=MAX_ORDERS_PER_PAY)]


_OTHERS: Final = re.compile(r"[0-9]{19}\..*|F[0-9a-f]{32}", re.DOTALL)
"""Order numbers of payouts and creates (`wire.orders`): a deposit under one of them would block it for good."""


def read(kind: type[T], args: Any) -> T:
    """Convert positional arguments of a request to `kind`; raises Refused(`malformed_request`)."""
    try:
        request = msgspec.convert(args, kind)
    except msgspec.ValidationError as error:
        raise Refused("malformed_request", f"{kind.__name__}: {error}") from error
    refuse_nul([value for value in args if isinstance(value, str)])
    if isinstance(request, FundRequest):
        _check_day(request.envelope_id)
    elif isinstance(request, DepositRequest) and _OTHERS.fullmatch(request.order_no):
        raise Refused("malformed_request", "the order number of a deposit has the form of a create's or a payout's")
    return request


def read_orders(args: Any) -> list[PayOrder]:
    """Convert the orders of a PAY; raises Refused(`malformed_request`) for the whole list if one is malformed.

    Each order number must be one of its own envelope: a number is paid once, so a SET that could use those of other
    SETs' envelopes could keep their winners from being paid.
    """
    try:
        orders: list[PayOrder] = msgspec.convert(args, _Orders)
    except msgspec.ValidationError as error:
        raise Refused("malformed_request", f"PAY: {error}") from error
    for order in orders:
        envelope, _, seq = order.order_no.partition(".")
        if envelope != str(order.envelope_id) or not (seq.isascii() and seq.isdecimal()):
            raise Refused("malformed_request", f"PAY: {order.order_no!r} is no order number of {order.envelope_id}")
    refuse_nul([order.user for order in orders])
    return orders


def _check_day(envelope_id: int) -> None:
    """Raise Refused if the ID is of no day: no header could be written for it, so no money may be taken."""
    try:
        day_of(envelope_id)
    except (ValueError, InvariantBroken):
        raise Refused("malformed_request", f"envelope ID {envelope_id} begins with no day of the calendar") from None


def refuse_nul(words: Sequence[str]) -> None:
    """Raise Refused if a text has a NUL: Postgres takes none, and one would fail the whole batch."""
    if "\0" in "".join(words):
        raise Refused("malformed_request", "a name or number contains a NUL character")
