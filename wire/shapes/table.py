"""Which shapes each operation has, and the whole of it as plain values."""

from collections.abc import Mapping
from enum import IntEnum
from types import NoneType, UnionType
from typing import Any, Final, NamedTuple, Union, get_args, get_origin, get_type_hints

import msgspec

from errors import InvariantBroken
from wire.messages import LIVE, FundStatus, Op, PayKind, PayStatus, PlaceStatus, Status
from wire.shapes.fields import (
    EnvelopeIds,
    Fields,
    Nothing,
    PageArgs,
    PublishedArgs,
    PublishedReply,
    RefusedReply,
    TracedArgs,
    UnavailableReply,
)
from wire.shapes.of_sets import (
    CancelArgs,
    CardsArgs,
    CardsReply,
    CreateArgs,
    CreateReply,
    DetailArgs,
    DetailReply,
    Epochs,
    GrabArgs,
    LiveNotice,
    OpenArgs,
    OutcomeReply,
    WaitingReply,
    WatchReply,
)
from wire.shapes.of_wallet import (
    BalanceReply,
    DepositArgs,
    EntriesReply,
    EnvelopesArgs,
    EnvelopesReply,
    FundArgs,
    FundReply,
    FundsArgs,
    FundsReply,
    GiveBackArgs,
    PayArgs,
    PayReply,
    PlacesArgs,
    PlacesReply,
    TotalsArgs,
    TotalsReply,
    UserArgs,
)


class Message(NamedTuple):
    """One operation. `reply` is None for a notice."""

    args: type[Fields]
    reply: type[Fields] | None


MESSAGES: Final[Mapping[Op, Message]] = {
    Op.OPEN: Message(OpenArgs, OutcomeReply),
    Op.GRAB: Message(GrabArgs, OutcomeReply),
    Op.CREATE: Message(CreateArgs, CreateReply),
    Op.DETAIL: Message(DetailArgs, DetailReply),
    Op.CANCEL: Message(CancelArgs, DetailReply),
    Op.EPOCHS: Message(Epochs, None),
    Op.WATCH: Message(GrabArgs, WatchReply),
    Op.UNWATCH: Message(EnvelopeIds, None),
    Op.CARDS: Message(CardsArgs, CardsReply),
    Op.WAITING: Message(PageArgs, WaitingReply),
    Op.FUND: Message(FundArgs, FundReply),
    Op.PAY: Message(PayArgs, PayReply),
    Op.BALANCE: Message(UserArgs, BalanceReply),
    Op.ENTRIES: Message(PageArgs, EntriesReply),
    Op.ENVELOPES: Message(EnvelopesArgs, EnvelopesReply),
    Op.DEPOSIT: Message(DepositArgs, BalanceReply),
    Op.FUNDS: Message(FundsArgs, FundsReply),
    Op.PAID_OUT: Message(EnvelopeIds, EnvelopeIds),
    Op.PLACES: Message(PlacesArgs, PlacesReply),
    Op.GIVE_BACK: Message(GiveBackArgs, Nothing),
    Op.TOTALS: Message(TotalsArgs, TotalsReply),
    Op.PUBLISHED: Message(PublishedArgs, PublishedReply),
    Op.TRACED: Message(TracedArgs, None),
}
NOTICES: Final[Mapping[str, type[Fields]]] = {LIVE: LiveNotice}
"""What a server tells unasked, but its load: that is one number for each kind of work, kinds appended (`wire.load`)."""
ERRORS: Final[Mapping[str, type[Fields]]] = {
    "REFUSED": RefusedReply,
    "UNAVAILABLE": UnavailableReply,
    "BROKEN": RefusedReply,
}
NUMBERS: Final[tuple[type[IntEnum], ...]] = (Op, Status, FundStatus, PayStatus, PayKind, PlaceStatus)
"""Enumerations whose numbers cross the link."""
MAY_BE_MISSING: Final = ", may be missing"


def described() -> dict[str, Any]:
    """Return the table as plain values, for a file: fields in order, each as "name: type".

    A field without which a reader does is followed by MAY_BE_MISSING. A type is a word, `list of X`, or
    `X or none`; X is a word too, or one of `rows`.
    """
    rows: dict[str, list[str]] = {}

    def fields_of(kind: type[msgspec.Struct]) -> list[str]:
        hints = get_type_hints(kind)
        return [
            f"{one.name}: {word(hints[one.name])}{'' if one.required else MAY_BE_MISSING}"
            for one in msgspec.structs.fields(kind)
        ]

    def word(kind: Any) -> str:
        if get_origin(kind) is list:
            return f"list of {word(get_args(kind)[0])}"
        if get_origin(kind) in (Union, UnionType):
            return f"{' or '.join(word(one) for one in get_args(kind) if one is not NoneType)} or none"
        if get_origin(kind) is dict:
            return "map"
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            rows[kind.__name__] = fields_of(kind)
            return kind.__name__
        if kind not in (int, str, bool, bytes, float):
            raise InvariantBroken("wire_shapes", f"{kind} has no word")
        return str(kind.__name__)

    return {
        "args": {op.name: fields_of(message.args) for op, message in MESSAGES.items()},
        "replies": {op.name: fields_of(message.reply) for op, message in MESSAGES.items() if message.reply},
        "notices": {name: fields_of(kind) for name, kind in NOTICES.items()},
        "errors": {name: fields_of(kind) for name, kind in ERRORS.items()},
        "numbers": {kind.__name__: {one.name: one.value for one in kind} for kind in NUMBERS},
        "rows": rows,
    }
