"""Requests from links, validated: from here on every value fits its column and every amount is within bounds."""

from collections.abc import Sequence
from typing import Annotated, Any, TypeAlias, TypeVar

import msgspec

from errors import Refused
from wallet.limits import DRAFT_BYTES, HASH_BYTES, MAX_AMOUNT_FEN, MAX_ORDERS_PER_PAY, ORDER_CHARS, USER_CHARS
from wire.messages import PayKind

Amount: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=MAX_AMOUNT_FEN)]
EnvelopeId: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]
User: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=USER_CHARS)]
OrderNo: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=ORDER_CHARS)]


class FundRequest(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
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


class PayOrder(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """One credit out of an escrow."""

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


class DepositRequest(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """Credit a user from the outside world."""

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


def read(kind: type[T], args: Any) -> T:
    """Convert positional arguments of a request to `kind`; raises Refused(`malformed_request`)."""
    try:
        request = msgspec.convert(args, kind)
    except msgspec.ValidationError as error:
        raise Refused("malformed_request", f"{kind.__name__}: {error}") from error
    _refuse_nul([value for value in args if isinstance(value, str)])
    return request


def read_orders(args: Any) -> list[PayOrder]:
    """Convert the orders of a PAY; raises Refused(`malformed_request`) for the whole list if one is malformed."""
    try:
        orders: list[PayOrder] = msgspec.convert(args, _Orders)
    except msgspec.ValidationError as error:
        raise Refused("malformed_request", f"PAY: {error}") from error
    _refuse_nul([order.order_no + order.user for order in orders])
    return orders


def _refuse_nul(words: list[str]) -> None:
    # Postgres takes no NUL in a text: one would fail the whole batch.
    if "\0" in "".join(words):
        raise Refused("malformed_request", "a name or number contains a NUL character")
