"""The outcomes of grab and open: values, not exceptions, in a fixed order of precedence.

The ladder of `envelope.decide` checks its guards in the order of `PRECEDENCE`; the first that applies is the outcome. A
winner always gets `already_opened`, whatever happened since, because an answer once given never changes. A user without
access gets `not_invited` before any outcome that would reveal the envelope's state.
"""

from enum import StrEnum

from errors import Refused


class Outcome(StrEnum):
    """`result` of grab and open. `code` is its position in the definition: the number on the wire and in counters."""

    code: int

    OPENED = "opened"
    OPENABLE = "openable"
    ALREADY_OPENED = "already_opened"
    SOLD_OUT = "sold_out"
    EXPIRED = "expired"
    CANCELED = "canceled"
    NOT_STARTED = "not_started"
    NOT_INVITED = "not_invited"
    WRONG_PASSWORD = "wrong_password"  # noqa: S105 - the name of an outcome
    NOT_FOUND = "not_found"
    BUSY = "busy"


for _code, _outcome in enumerate(Outcome):
    _outcome.code = _code


PRECEDENCE = (
    Outcome.NOT_FOUND,
    Outcome.ALREADY_OPENED,
    Outcome.NOT_INVITED,
    Outcome.CANCELED,
    Outcome.SOLD_OUT,
    Outcome.EXPIRED,
    Outcome.NOT_STARTED,
    Outcome.WRONG_PASSWORD,
    Outcome.BUSY,
    Outcome.OPENABLE,
    Outcome.OPENED,
)
"""The first that applies is the outcome. `busy` stands late, so that a final outcome is never replaced by a retry."""


def not_found() -> Refused:
    """Return what NOT_FOUND is where the answer is no outcome: the refusal of a request for an unknown envelope."""
    return Refused("not_found", "there is no such envelope")


class State(StrEnum):
    """`status` of an envelope; every one but SCHEDULED and OPEN is final."""

    SCHEDULED = "scheduled"
    OPEN = "open"
    SOLD_OUT = "sold_out"
    EXPIRED = "expired"
    CANCELED = "canceled"


class Entry(StrEnum):
    """Kind of an entry in the claim log. All but OPEN close the envelope and return what is left to the sender."""

    OPEN = "open"
    EXPIRED = "expired"
    CANCELED = "canceled"
    UNDONE = "undone"
    """The create stopped half way and the sweeper undid it before anybody could open; shown as canceled."""


def state_at(
    now_ms: int, *, opens: int, count: int, closed_by: Entry | None, opens_at_ms: int, expires_at_ms: int
) -> State:
    """Return the state of an envelope with `opens` committed claims of `count`, and its committed closing entry."""
    if closed_by is not None:
        return State.EXPIRED if closed_by is Entry.EXPIRED else State.CANCELED
    if opens == count:
        return State.SOLD_OUT
    if now_ms >= expires_at_ms:
        return State.EXPIRED
    return State.SCHEDULED if now_ms < opens_at_ms else State.OPEN
