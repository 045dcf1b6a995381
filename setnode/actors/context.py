"""What an actor needs of its surroundings: queues, clocks, counters. The registry implements it."""

from typing import Protocol, TypeVar

from errors import InvariantBroken

FOREIGN = -1
"""The generation of an actor whose log must be read anew before it is shown: another server owns the envelope, or wrote
to it. Never equal to the present generation."""

ActorT_contra = TypeVar("ActorT_contra", contravariant=True)


class ActorContext(Protocol[ActorT_contra]):
    """The surroundings of the actors of one server.

    `tally` counts answers by `Outcome.code`; `waiting` counts the requests in all mailboxes. Actors keep both up to
    date, because counting over all actors once a second would block the event loop.
    """

    tally: list[int]
    waiting: int
    generation: int
    """Raised whenever another server may have written to any envelope: logs read before are not shown any more."""
    postgres_life: int
    """Raised whenever another Postgres answers: logs read before may be ahead of it; nothing is decided from them."""

    def now_ms(self) -> int:
        """Return the time of the business clock, in ms since the epoch."""

    def loop_time(self) -> float:
        """Return the event loop's time, as in `Request.arrived_at`."""

    def generation_of(self, envelope_id: int) -> int:
        """Return the present generation, or FOREIGN for an envelope that another server owns."""

    def enqueue_commit(self, actor: ActorT_contra) -> None:
        """Add an actor that has just become READY to the committer's queue."""

    def note_hot(self, actor: ActorT_contra) -> None:
        """Note that at least HOT_AT requests wait at this READY actor; call it once per stay in the queue."""

    def enqueue_load(self, actor: ActorT_contra) -> None:
        """Ask the loader for the log of this actor, which is LOADING."""

    def set_weight(self, actor: ActorT_contra, shares: int) -> None:
        """Set how many shares this actor now holds in memory."""

    def report_broken(self, actor: ActorT_contra, error: InvariantBroken) -> None:
        """Log and count that the money of this envelope does not add up."""

    def forget(self, actor: ActorT_contra) -> None:
        """Drop an actor at which no request waits."""
