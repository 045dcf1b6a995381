"""What the gateway answers, as it comes: money in whole fen, times as aware datetimes, IDs as text.

New members may be added to an answer, and new words to `status`, `result` and `kind` of an entry: those that are not
known here are left out, and a word is a `str`.
"""

from datetime import datetime
from typing import Final

import msgspec

FINAL: Final = frozenset({"sold_out", "expired", "canceled"})
"""Statuses after which nobody can open any more."""


class Claim(msgspec.Struct, frozen=True):
    """A share that somebody has won. `seq` is its place in the order of opening, from 0."""

    seq: int
    user: str
    amount_fen: int
    claimed_at: datetime


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """An envelope as its sender made it. `share_id` and `share_token` are shown to the sender alone: pass one on."""

    envelope_id: str
    status: str
    sender: str
    kind: str
    split: str
    split_version: int
    split_commitment: str
    total_fen: int
    count: int
    greeting: str
    password_required: bool
    created_at: datetime
    opens_at: datetime
    expires_at: datetime
    min_fen: int | None = None
    max_fen: int | None = None
    to: list[str] | None = None
    share_token: str | None = None
    share_id: str | None = None

    @property
    def final(self) -> bool:
        """Whether nobody can open it any more."""
        return self.status in FINAL


class Detail(Envelope, frozen=True, kw_only=True):
    """An envelope as it is now, with a page of its claims, oldest first; sums and best luck are those of all claims."""

    claimed_count: int
    claimed_fen: int
    claims: list[Claim]
    next_cursor: str | None = None
    best_luck: Claim | None = None
    """Once all shares are taken."""
    refund_fen: int | None = None
    closed_at: datetime | None = None
    split_seed: str | None = None
    """Once nothing can change: recompute every amount from it."""
    archived: bool = False
    version: str = ""
    """What names this state: `User.detail(..., seen=this)` costs no body while it has not changed."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What an open or a grab came to. `amount_fen`, `seq` and `last` are there if the user holds a share.

    `result`: `opened`, `already_opened`, `sold_out`, `expired`, `canceled`, `not_started`, `not_invited`,
    `wrong_password`; of a grab also `openable`. Of an envelope with a password `tries_left` says how many wrong ones
    the user may still give; with 0 the result is `wrong_password` for good. An open without a password costs no try.
    """

    result: str
    amount_fen: int | None = None
    seq: int | None = None
    last: bool | None = None
    opens_at: datetime | None = None
    password_required: bool | None = None
    tries_left: int | None = None
    detail: str | None = None

    @property
    def opened(self) -> bool:
        """Whether this very open won a share."""
        return self.result == "opened"


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What a stream tells of an envelope: how it is now, with the claims since the last change, the newest 20 at most.

    `claims` may leave a gap before it: their `seq` shows it.
    """

    envelope_id: str
    status: str
    count: int
    claimed_count: int
    claimed_fen: int
    claims: list[Claim]
    best_luck: Claim | None = None
    refund_fen: int | None = None
    """What is left and goes back to the sender; of one that has expired it comes a moment later, with `closed_at`."""
    closed_at: datetime | None = None

    @property
    def final(self) -> bool:
        """Whether nobody can open it any more."""
        return self.status in FINAL

    @property
    def complete(self) -> bool:
        """Whether no change follows: it is final, and if it has expired, it is closed and `refund_fen` is there."""
        return self.final and (self.status != "expired" or self.closed_at is not None)


class Wallet(msgspec.Struct, frozen=True):
    """A user's balance."""

    user: str
    balance_fen: int


class Entry(msgspec.Struct, frozen=True):
    """A line of a user's statement; `amount_fen` is negative where money left the wallet."""

    entry_id: str
    order_no: str
    kind: str
    amount_fen: int
    envelope_id: str | None
    at: datetime


class Mine(msgspec.Struct, frozen=True, kw_only=True):
    """An envelope in a user's list. With the status `unavailable` it cannot be shown now, and the rest is missing.

    `amount_fen`: of one sent the total, of one received the user's share. `at`: when the user sent or opened it.
    """

    envelope_id: str
    at: datetime
    status: str
    amount_fen: int | None = None
    sender: str | None = None
    kind: str | None = None
    greeting: str | None = None
    total_fen: int | None = None
    count: int | None = None
    opens_at: datetime | None = None
    expires_at: datetime | None = None
    claimed_count: int | None = None
    claimed_fen: int | None = None
    refund_fen: int | None = None
    best_luck: bool | None = None


class Totals(msgspec.Struct, frozen=True):
    """What a user received, sent and got back in a year."""

    year: int
    received_count: int
    received_fen: int
    sent_count: int
    sent_fen: int
    refunded_fen: int


class EntryPage(msgspec.Struct, frozen=True):
    """A page of a statement, newest first."""

    items: list[Entry]
    next_cursor: str | None = None


class MinePage(msgspec.Struct, frozen=True):
    """A page of a list of envelopes, newest first. `incomplete`: a part could not be asked, so some may be missing."""

    items: list[Mine]
    next_cursor: str | None = None
    incomplete: bool = False


class PlayUsers(msgspec.Struct, frozen=True):
    """Who may sign in without a password, for development."""

    users: list[str]


class PlayToken(msgspec.Struct, frozen=True):
    """A token for one of them."""

    user: str
    token: str
    expires_at: datetime
