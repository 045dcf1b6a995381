"""The messages on a link: operations, their arguments and replies, as positional lists (small on the wire).

A request is `[number, op, *args]`, a reply `[number, status, *values]`; a frame is a list of either. A link gives each
request a number of its own; number 0 is a notice, which has no reply. Both ends name a call in their logs `<address and
port of the caller's end>-<number>`: no call carries a name of its own, and an error of the calling end
(`HongbaoError.call`) leads to the line of the other end. Behind a translation of addresses the ends see different ones,
and only the number is the same.

Views of an envelope travel as the JSON that the client receives: the gateway passes them on unread.

Neighbouring releases understand each other (docs/operations/upgrade.md), by these rules; `wire.shapes` has the fields:

- Fields are only appended: to arguments, to replies, to rows in them. None is removed, moved or changed in type, and no
  number of an enumeration gets another meaning.
- A reader ignores what comes after the last field that it knows, and has a default for an appended one that is missing.
  Terms of a create, which have names, are the exception: an unknown one is refused, because without it another envelope
  would be made.
- What an older end cannot do is asked of it, or told it, only if it has the capability (`wire.versions`): a new
  operation, a new number, or an appended field that must not be ignored. Without it the caller does without, or refuses
  its own caller.

Version 2 is older than these rules: its wallet and its creates refuse arguments that they do not know. So nothing may
be appended to what a link of version 2 carries.
"""

from enum import IntEnum
from typing import Any, NamedTuple

from errors import HongbaoError, InvariantBroken, Refused, Unavailable


class Op(IntEnum):
    """Operations; the docstring of each value is its argument list → its reply values."""

    OPEN = 1
    """envelope_id, user, token_ok, password|None → outcome, amount_fen, seq, last, extra|None"""
    GRAB = 2
    """envelope_id, user, token_ok → outcome, amount_fen, seq, last, extra|None"""
    CREATE = 3
    """sender, create_key, fingerprint, [envelope_id candidates], terms → replayed, envelope_id, envelope (JSON) | None

    None: the first attempt was on another SET; repeat the create there, with its ID as the only candidate.

    terms: kind, split, total_fen, count, greeting, to (list|None), password (str|None), opens_at_ms (int|None),
    expires_in_s.
    """
    DETAIL = 4
    """envelope_id, user, token_ok, first seq of the claims, limit, [versions that the caller has] →
    detail (JSON) | None, whether the user is its sender, version

    None: the caller has this version; "*" stands for any. The last three may be missing: the first page."""
    CANCEL = 5
    """envelope_id, user → detail (JSON), whether the user is its sender, version"""

    WATCH = 7
    """envelope_id, user, token_ok → frame (JSON), its version, claims so far

    From then on the caller is told of each change: number NOTICE, OK, LIVE, envelope_id, frame, its version."""
    UNWATCH = 8
    """Notice, no reply: [envelope_id, …] that the caller watches no more"""
    CARDS = 9
    """user, [envelope_id, …] → [card (JSON) | None, …] in the same order

    None: the user may not see it (the share token does not count here), there is none, or it cannot be shown now."""

    WAITING = 10
    """user, before (envelope ID; 0: the newest), limit →
    [[envelope_id, created_at_ms, card (JSON)], …], floor, complete

    Envelopes that name the user, are open or scheduled, and that the user has not opened; newest first. Below `floor`
    there may be more (0: there is none). Not complete: some of this SET cannot be shown now."""

    EPOCHS = 6
    """Notice, no reply: [epoch of each database] in the caller's topology"""

    FUND = 20
    """create_key, fingerprint, user, total_fen, envelope_id, header hash, draft → fund status, envelope_id, draft

    Both of the first attempt under this key; the draft is empty but for a repeat."""
    PAY = 21
    """[[order_no, kind, user, amount_fen, envelope_id], …] → [[pay status, reason|None], …] in the same order"""
    BALANCE = 22
    """user → balance_fen"""
    ENTRIES = 23
    """user, before (entry ID or 0), limit → [[entry_id, order_no, kind, amount_fen (signed), envelope_id, at_ms], …]

    envelope_id: None for a deposit. kind: "deposit" | "fund" | "claim" | "refund" | "claim_outside" (paid through
    a provider, balance unchanged)."""
    ENVELOPES = 24
    """user, role ("sent"|"received"), before, limit → [[cursor, envelope_id, amount_fen, at_ms], …]"""
    DEPOSIT = 25
    """order_no, user, amount_fen → balance_fen"""
    FUNDS = 26
    """after (fund ID), until_ms, limit → [[fund_id, envelope_id, user, total_fen], …] in order of fund ID"""

    PAID_OUT = 27
    """[envelope_id, …] → [those of which any share was paid or refunded]"""

    PLACES = 28
    """day (days since 1970), [[user, sender, envelope_id], …], most places of a user, most of a user at a sender →
    [place status, …] in the same order"""
    GIVE_BACK = 29
    """day, [[user, envelope_id], …] → nothing"""

    PUBLISHED = 31
    """[[document, version], …] that the caller knows → [[document, version, content], …] that are newer

    Of the wallet; documents: "topology", "switches" (`published.documents`)."""

    TRACED = 32
    """Notice, no reply: number of a call that follows, context of its trace (26 bytes: trace, span, version, flags)

    To an end with the capability `traces`, for chosen calls only (`wire.traced`)."""

    TOTALS = 30
    """user, from_ms, until_ms → received_count, received_fen, sent_count, sent_fen, refunded_fen"""


class PlaceStatus(IntEnum):
    """Whether a user may win a share of an envelope today; all but HAS_ONE are refusals."""

    HAS_ONE = 0
    MOST_REACHED = 1
    MOST_OF_SENDER_REACHED = 2


class Status(IntEnum):
    """First value of a reply."""

    OK = 0
    """The only status that is no error, and the only one that is falsy."""
    REFUSED = 1
    UNAVAILABLE = 2
    BROKEN = 3


class FundStatus(IntEnum):
    """Outcome of taking a create's money. From INSUFFICIENT on it was refused, and no money was moved."""

    DONE = 0
    REPLAYED = 1
    INSUFFICIENT = 2
    KEY_REUSED = 3
    ID_TAKEN = 4


class PayStatus(IntEnum):
    """Outcome of one order. REFUSED is final; after UNKNOWN repeat it under the same number."""

    PAID = 0
    REFUSED = 1
    UNKNOWN = 2


class PayResult(NamedTuple):
    """Outcome of one order, and the reason unless it is PAID."""

    status: PayStatus
    reason: str | None = None


PAID = PayResult(PayStatus.PAID)


class PayKind(IntEnum):
    """Why the wallet moves money out of an escrow."""

    CLAIM = 0
    REFUND = 1


LIVE = "live"
"""First value of a notice that tells of an envelope that the caller watches."""
STOPPING = "stopping"
"""Code of a server that goes away: as a reply, the call was not begun; as a notice, nothing more is to be sent."""


def error_reply(number: int, error: HongbaoError) -> list[Any]:
    """Encode an error as a reply."""
    if isinstance(error, Unavailable):
        return [
            number, Status.UNAVAILABLE, error.code, error.detail, error.retry_after_s, error.outcome_known
        ]  # fmt: skip
    status = Status.REFUSED if isinstance(error, Refused) else Status.BROKEN
    return [number, status, error.code, error.detail]


def error_of(status: int, values: list[Any]) -> HongbaoError:
    """Decode an error reply (`[number, status, *values]` with status ≠ OK) back into the exception it was."""
    code, detail, *more = values
    if status == Status.UNAVAILABLE:
        return Unavailable(code, detail, retry_after_s=more[0], outcome_known=more[1])
    if status == Status.REFUSED:
        return Refused(code, detail)
    return InvariantBroken(code, detail)
