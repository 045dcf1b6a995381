"""What an actor stands on: where it is in its life, and what it asks of its surroundings."""

from enum import IntEnum
from typing import TYPE_CHECKING, Protocol

from envelope.errors import InvariantBroken

if TYPE_CHECKING:
    from setnode.actors.actor import Actor

FOREIGN = -1
"""The generation of an actor whose envelope belongs to another server: never the present one."""


class Phase(IntEnum):
    """Where an actor is; see the picture in `setnode.actors.actor`."""

    LOADING = 0
    IDLE = 1
    READY = 2
    WRITING = 3
    FROZEN = 4


LOADING, IDLE, READY, WRITING, FROZEN = Phase
"""Each by its own name: up to Python 3.11 a look through the class costs 60 ns, and an open would take ten."""


class Stage(Protocol):
    """What an actor needs of its surroundings.

    `tally` counts answers by `Outcome.code`, and `waiting` the requests in all mailboxes: to walk past a hundred
    thousand actors once a second stalled everybody for 40 ms and more.
    """

    tally: list[int]
    waiting: int

    def now_ms(self) -> int:
        """Return the instant of the business clock."""

    def loop_time(self) -> float:
        """Return the event loop's time, as in `Request.arrived`."""

    def want_commit(self, actor: "Actor") -> None:
        """Ask the committer to collect from this actor."""

    def call_hot(self, actor: "Actor") -> None:
        """Let the committer know that HOT_AT wait at this actor, which is READY; said once until it is collected."""

    def want_load(self, actor: "Actor") -> None:
        """Ask the loader for this actor's log."""

    def weigh(self, actor: "Actor", shares: int) -> None:
        """Note how many shares this actor now holds in memory."""

    generation: int
    """Counts the moments at which another server may have taken over and given back."""

    def standing(self, envelope_id: int) -> int:
        """Return the generation, or FOREIGN for an envelope that another server should be serving."""

    def broken(self, actor: "Actor", error: InvariantBroken) -> None:
        """Shout: the money of this envelope is not what it should be."""

    def forget(self, actor: "Actor") -> None:
        """Drop an actor that nobody waits for."""
