"""What became of a call of a receiver, and what a sender of events is."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from events.catalogue import Event
from events.register import Target

REASON_CHARS = 400


class Failed(NamedTuple):
    """The call did not succeed: whether the receiver has the events is unknown, they are sent again.

    `reason` is a sentence for the operator. `retry_after_s`: what the receiver asked for. `gone`: the receiver wants no
    events any more (HTTP 410).
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
        """Close connections."""
