"""The events as receivers get them: their types, what each says, and what all have (CloudEvents 1.0, structured JSON).

The reference page of events and the `webhooks` of the OpenAPI document are made from this module: docstrings and fields
are what receivers read.
"""

from typing import ClassVar, Final

import msgspec

SOURCE: Final = "hongbao"
"""`source` of every event. With `id` it names the event for ever, also when it is sent twice."""
CONTENT_TYPE: Final = "application/cloudevents+json"


class EnvelopeCreated(msgspec.Struct, frozen=True, gc=False):
    """An envelope stands, and its money is paid in."""

    TYPE: ClassVar[str] = "envelope.created"
    envelope_id: str
    sender: str
    """The user who sent it."""
    kind: str
    """`lucky` or `equal`."""
    split: str
    """The formula that gives the amounts."""
    total_fen: int
    count: int
    """Into how many shares it is cut."""
    greeting: str
    named: bool
    """Whether only the users named in `to` may open it."""
    created_at: str
    opens_at: str
    """Nobody can open it before."""
    expires_at: str
    """What is left then goes back to the sender."""


class ShareOpened(msgspec.Struct, frozen=True, gc=False):
    """A user has won a share; the open is durable."""

    TYPE: ClassVar[str] = "share.opened"
    envelope_id: str
    seq: int
    """The place in the order of opening, from 0."""
    user: str
    """The user who won it."""
    amount_fen: int
    left: int
    """Shares that are left."""
    opened_at: str


class EnvelopeSoldOut(msgspec.Struct, frozen=True, gc=False):
    """The last share is taken; the envelope is final."""

    TYPE: ClassVar[str] = "envelope.sold_out"
    envelope_id: str
    count: int
    """How many shares there were."""
    sold_out_at: str


class EnvelopeClosed(msgspec.Struct, frozen=True, gc=False):
    """The envelope is closed before all shares were taken; what is left goes back to the sender."""

    TYPE: ClassVar[str] = "envelope.closed"
    envelope_id: str
    reason: str
    """`expired` or `canceled`."""
    opened: int
    """Shares that were taken."""
    refund_fen: int
    """What goes back to the sender."""
    closed_at: str


class RefundPaid(msgspec.Struct, frozen=True, gc=False):
    """What was left of a closed envelope is in the sender's wallet."""

    TYPE: ClassVar[str] = "refund.paid"
    envelope_id: str
    user: str
    """The sender."""
    amount_fen: int
    order_no: str
    """The number of the transfer in the wallet."""
    paid_at: str


class PayoutStuck(msgspec.Struct, frozen=True, gc=False):
    """A share that was won, or a refund, could not be paid: an operator has to look. The user's right to it stays."""

    TYPE: ClassVar[str] = "payout.stuck"
    envelope_id: str
    seq: int
    user: str
    """Who is to be paid."""
    amount_fen: int
    order_no: str
    attempts: int
    reason: str
    """What the wallet said."""
    stuck_at: str


Data = EnvelopeCreated | ShareOpened | EnvelopeSoldOut | EnvelopeClosed | RefundPaid | PayoutStuck

EVENTS: Final = (EnvelopeCreated, ShareOpened, EnvelopeSoldOut, EnvelopeClosed, RefundPaid, PayoutStuck)
TYPES: Final = tuple(one.TYPE for one in EVENTS)
"""All types, in the order of an envelope's life."""


class CloudEvent(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """An event as it is sent."""

    specversion: str = msgspec.field(default_factory=lambda: "1.0")
    id: str
    """The same whenever this event is sent; receivers recognize a repeat by it."""
    source: str = msgspec.field(default_factory=lambda: SOURCE)
    type: str
    subject: str
    """The envelope's ID."""
    time: str
    """When it happened, RFC 3339 in UTC."""
    partitionkey: str
    """The envelope's ID: events with the same key arrive in order."""
    sequence: str = ""
    """The place among the events of the envelope, ten digits; text order is the order. `payout.stuck` has none."""
    datacontenttype: str = msgspec.field(default_factory=lambda: "application/json")
    data: Data
