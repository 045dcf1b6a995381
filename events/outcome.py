"""What became of a call of a receiver, and what a sender of events is."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from events.event import Event
from events.register import Target

REASON_CHARS = 400
GONE = "receiver_gone"
"""Code of what is raised (Refused) once a receiver wants no events any more."""


def one_line(text: str) -> str:
    """Return what a receiver, or a library, has said as one line of REASON_CHARS printable characters at most.

    It goes into Postgres, logs and terminals: a receiver must not be able to send control characters there, or
    characters that Postgres does not take.
    """
    line = " ".join(text[: 4 * REASON_CHARS].split())
    return "".join(one if one.isprintable() else "\ufffd" for one in line[:REASON_CHARS])


class Failed(NamedTuple):
    """The call did not succeed: whether the receiver has the events is unknown, they are sent again.

    `reason` is a sentence for the operator (`one_line`). `retry_after_s`: what the receiver asked for. `gone`: the
    receiver wants no events any more (HTTP 410).
    """

    reason: str
    retry_after_s: float = 0.0
    gone: bool = False


class Sender(Protocol):
    """Sends events to one receiver."""

    async def send(self, events: Sequence[Event]) -> Failed | None:
        """Send events in this order; None once the receiver has accepted all. Never raises but when cancelled."""

    def retarget(self, target: Target) -> None:
        """Go on with other secrets of the same target."""

    async def close(self) -> None:
        """Close connections; what is on its way is lost."""
