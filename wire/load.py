"""What the answering end of a link says of itself: that it is there, how long requests wait, and that it goes away.

A caller that knows that a server is behind refuses requests for it before it works on them; without that word it would
notice only by answers that come late (levels that travel back: DAGOR, SoCC 2018). The word is a reply that answers no
request: number NOTICE, status OK, then the wait in ms for each kind of work. A caller of an older version ignores it.

The word is said every BEAT_S, also where nothing waits: a process that is frozen, or cut off, says nothing, and its
callers notice (`wire.link`); that it beats is a capability (`versions.BEATS`). Who waits for an answer that takes long
hears beats meanwhile.

A setnode also says how long its database has not answered it: one that is cut off from a database that the other
servers of its SET still reach is well in all else, and its envelopes are better served by these
(`gateway.sets.servers`).

A process that stops says so first, and waits LEAVE_S: what its callers have sent by then is answered, and what they
would send goes elsewhere. Otherwise a call could be on its way as the connection ends, and its outcome unknown.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from runtime.periodic import Periodic
from wire.limits import BEAT_S, LEAVE_S, LOAD_S, LOAD_STEP_MS

_BEAT_ROUNDS: Final = round(BEAT_S / LOAD_S)


class Told(Protocol):
    """A caller that is told."""

    def tell_load(self, waits_ms: Sequence[int]) -> None:
        """Send it."""

    def tell_leaving(self) -> None:
        """Say that nothing more is to be sent."""


class Waits:
    """The waits of one kind of work: `note` each wait that has ended.

    `oldest` returns how long the one in front waits now, s, and `waiting` how many wait. While these are fewer than
    `crowd` their waits are not told: few who wait long wait for a part that stands still, and to refuse others would
    not help them.
    """

    __slots__ = ("_count", "_crowd", "_oldest", "_sum_s", "_waiting")

    def __init__(self, oldest: Callable[[], float], waiting: Callable[[], int], crowd: int) -> None:
        self._oldest = oldest
        self._waiting = waiting
        self._crowd = crowd
        self._sum_s = 0.0
        self._count = 0

    def note(self, waited_s: float) -> None:
        """Count one wait that has ended."""
        self._sum_s += waited_s
        self._count += 1

    def take(self, late_s: float = 0.0) -> float:
        """Return the mean wait since the last call, or how long the one in front waits already, if that is longer.

        `late_s`: what the loop is late by, for which everybody waits. 0 without a crowd.
        """
        mean_s = self._sum_s / self._count if self._count else 0.0
        self._sum_s, self._count = 0.0, 0
        return max(mean_s, self._oldest()) + late_s if self._waiting() >= self._crowd else 0.0


class Silence:
    """How long a part that this process needs has not answered, as `silent_s` says; told from `after_s` on.

    Requests do not wait for it in a queue of this process, so it is no kind of work that is refused where many wait.
    """

    __slots__ = ("_after_s", "_silent_s")

    def __init__(self, silent_s: Callable[[], float], after_s: float) -> None:
        self._silent_s = silent_s
        self._after_s = after_s

    def take(self, late_s: float = 0.0) -> float:
        """Return how long; 0 below `after_s`. While this loop was late (`late_s`) it could not hear an answer."""
        silent_s = self._silent_s() - late_s
        return silent_s if silent_s >= self._after_s else 0.0


class Load:
    """Tells all callers how long requests of each kind wait: every LOAD_S, or every BEAT_S while nothing waits.

    What the loop itself is late by counts for every kind: requests wait in sockets meanwhile, where nobody sees them.
    """

    def __init__(self, *kinds: Waits | Silence) -> None:
        self._kinds = kinds
        self.callers: set[Told] = set()
        """Who is told."""
        self._told: list[int] = [0] * len(kinds)
        self._leaving = False
        self._rounds = 0
        """Rounds since the last word."""
        self._due = asyncio.get_running_loop().time() + LOAD_S

    def add(self, caller: Told) -> None:
        """Tell a caller, now and from now on."""
        self.callers.add(caller)
        caller.tell_load(self._told)
        if self._leaving:
            caller.tell_leaving()

    def remove(self, caller: Told) -> None:
        """Forget it."""
        self.callers.discard(caller)

    async def leave(self) -> None:
        """Tell every caller that this process stops; return once nothing that they have sent before is on its way."""
        self._leaving = True
        for caller in self.callers:
            caller.tell_leaving()
        await asyncio.sleep(LEAVE_S)

    def service(self) -> Periodic:
        """Return what measures and tells every LOAD_S."""
        return Periodic("load", self._round, interval_s=LOAD_S, jitter=0.0)

    async def _round(self) -> None:
        now = asyncio.get_running_loop().time()
        late_s, self._due = max(0.0, now - self._due), now + LOAD_S
        self.tell(late_s)

    def tell(self, late_s: float) -> None:
        """Measure, and tell every caller if anything waits, has waited, or a beat is due.

        `late_s`: what the loop is late by.
        """
        step = LOAD_STEP_MS
        waits = [int(one.take(late_s) * 1000) // step * step for one in self._kinds]
        self._rounds += 1
        if any(waits) or any(self._told) or self._rounds >= _BEAT_ROUNDS:
            self._rounds = 0
            for caller in self.callers:
                caller.tell_load(waits)
        self._told = waits


OPENS: Final = 0
CREATES: Final = 1
"""Places of a setnode's kinds of work; the wallet has one, creates and deposits, at place 0."""
DATABASE: Final = 2
"""The place of how long a setnode's database has not answered it."""
