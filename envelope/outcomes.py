"""What a user may hear of an envelope: values, not exceptions, in a fixed order of precedence.

The ladder of `envelope.decide` asks its questions in the order of `PRECEDENCE`; the first that applies is the
answer. A winner hears `already_opened` whatever happened since, because an answer once given never changes.
A stranger hears `not_invited` before anything that would tell him the envelope's state.
"""

from enum import StrEnum


class Outcome(StrEnum):
    """`result` of grab and open. `code` is its place in the order of definition: small on the wire, quick to count."""

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
"""First that applies wins. `busy` stands late: whoever can be told something final is not told to come again."""


class State(StrEnum):
    """`status` of an envelope; every one but SCHEDULED and OPEN is final."""

    SCHEDULED = "scheduled"
    OPEN = "open"
    SOLD_OUT = "sold_out"
    EXPIRED = "expired"
    CANCELED = "canceled"


class Entry(StrEnum):
    """Kind of an entry in the claim log. A closing entry takes all that is left, back to the sender."""

    OPEN = "open"
    EXPIRED = "expired"
    CANCELED = "canceled"
    UNDONE = "undone"
    """The create died half way and was undone before anybody could open; shown as canceled."""
