"""The messages between the wallet and its callers."""

from wire.shapes.fields import Fields


class FundArgs(Fields, frozen=True):
    """FUND."""

    create_key: str
    fingerprint: str
    user: str
    total_fen: int
    envelope_id: int
    header_hash: bytes
    draft: bytes


class FundReply(Fields, frozen=True):
    """Of FUND."""

    status: int
    envelope_id: int
    draft: bytes


class OrderRow(Fields, frozen=True):
    """Of PAY."""

    order_no: str
    kind: int
    user: str
    amount_fen: int
    envelope_id: int


class PayArgs(Fields, frozen=True):
    """PAY."""

    orders: list[OrderRow]


class PayRow(Fields, frozen=True):
    """Of PAY's reply."""

    status: int
    reason: str | None


class PayReply(Fields, frozen=True):
    """Of PAY."""

    results: list[PayRow]


class UserArgs(Fields, frozen=True):
    """BALANCE."""

    user: str


class BalanceReply(Fields, frozen=True):
    """Of BALANCE and DEPOSIT."""

    balance_fen: int


class EntryRow(Fields, frozen=True):
    """Of ENTRIES."""

    entry_id: int
    order_no: str
    kind: str
    amount_fen: int
    envelope_id: int | None
    at_ms: int


class EntriesReply(Fields, frozen=True):
    """Of ENTRIES."""

    rows: list[EntryRow]


class EnvelopesArgs(Fields, frozen=True):
    """ENVELOPES."""

    user: str
    role: str
    before: int
    limit: int


class EnvelopeRow(Fields, frozen=True):
    """Of ENVELOPES."""

    cursor: int
    envelope_id: int
    amount_fen: int
    at_ms: int


class EnvelopesReply(Fields, frozen=True):
    """Of ENVELOPES."""

    rows: list[EnvelopeRow]


class DepositArgs(Fields, frozen=True):
    """DEPOSIT."""

    order_no: str
    user: str
    amount_fen: int


class FundsArgs(Fields, frozen=True):
    """FUNDS."""

    after: int
    until_ms: int
    limit: int


class FundRow(Fields, frozen=True):
    """Of FUNDS."""

    fund_id: int
    envelope_id: int
    user: str
    total_fen: int


class FundsReply(Fields, frozen=True):
    """Of FUNDS."""

    rows: list[FundRow]


class PlaceRow(Fields, frozen=True):
    """Of PLACES."""

    user: str
    sender: str
    envelope_id: int


class PlacesArgs(Fields, frozen=True):
    """PLACES."""

    day: int
    places: list[PlaceRow]
    most: int
    most_of_sender: int


class PlacesReply(Fields, frozen=True):
    """Of PLACES."""

    statuses: list[int]


class ReturnedRow(Fields, frozen=True):
    """Of GIVE_BACK."""

    user: str
    envelope_id: int


class GiveBackArgs(Fields, frozen=True):
    """GIVE_BACK."""

    day: int
    places: list[ReturnedRow]


class TotalsArgs(Fields, frozen=True):
    """TOTALS."""

    user: str
    from_ms: int
    until_ms: int


class TotalsReply(Fields, frozen=True):
    """Of TOTALS."""

    received_count: int
    received_fen: int
    sent_count: int
    sent_fen: int
    refunded_fen: int
