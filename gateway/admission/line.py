"""The line of requests that wait to begin: a few begin in each turn of the event loop, in order of arrival.

Clients that are answered together send their next requests together. If hundreds of requests began in one turn, all
would be parsed before the first is sent to its SET; gateway, link, setnode and Postgres would then work one after the
other instead of side by side (docs/decisions/0013-a-few-requests-a-turn.md).

The line has room for a burst. Who comes when it is full is refused, at once and unread. While that happens it is kept
as short as what begins in LINE_S, and a threshold refuses those who come last in the order of priority, so that it is
not full when others come.

A request's wait counts from the instant at which it could be read. The kernel does not tell it; the loop read the
sockets at the beginning of this turn and of the one before, so it lies between the two, and the earlier one counts.
"""

import asyncio
from collections import deque
from typing import NamedTuple, Protocol

from gateway.admission.priority import Class, Places, Promises
from gateway.admission.reason import Reason
from gateway.admission.threshold import Threshold
from gateway.limits import (
    BEGIN_PER_S,
    BURST,
    CLIENT_WAITS_S,
    LATE_A_TURN,
    LATE_S,
    LINE_LEAST,
    LINE_S,
    OLD_S,
    PER_TURN_MOST,
    TIMEOUTS_S,
    WINDOW_S,
)
from runtime import metrics

_waits = metrics.gauge("hongbao_line_wait_seconds", "How long requests waited to begin, the mean of the last window")


class Asked(NamedTuple):
    """What admission needs to know of a request: its class, and its user by the header `Authorization`."""

    kind: Class
    asker: bytes


class Refusal(NamedTuple):
    """A request that may not begin: its class, and why."""

    kind: Class
    reason: Reason


class Waiting(Protocol):
    """A connection whose first unanswered request waits to begin."""

    arrived_at: float
    in_line: bool

    def asked_for(self) -> Asked:
        """Return what that request is."""

    def timeout_s(self) -> float:
        """Return how long its client waits for an answer."""

    @property
    def left(self) -> bool:
        """Whether the client has hung up."""

    def begin(self) -> None:
        """Begin it."""

    def refuse(self, refusal: Refusal) -> None:
        """Answer it with 503 `busy`, and go on with what came behind it."""


class Line:
    """Begins `per_turn` requests in each turn of the loop, more in one that took long."""

    def __init__(
        self, per_turn: int, places: Places, loop: asyncio.AbstractEventLoop, *, waits_s: float = CLIENT_WAITS_S
    ) -> None:
        """`waits_s`: how long a client waits for an answer that does not say it."""
        self._per_turn = self._left = per_turn
        self._loop = loop
        self._time = loop.time
        self.waits_s = waits_s
        self.promises = Promises(loop.time)
        self._waiting: deque[Waiting] = deque()
        self._places = places
        self._threshold = Threshold()
        self._most = BURST
        """Requests that may wait."""
        self._turning = False
        self._turn_at = loop.time()
        """When the turn before this one began."""
        # What has happened since the last `adjust`.
        self._adjusted_at = loop.time()
        self._begun = self._at_once = 0
        self._wait_s = 0.0
        self._overflowed = False

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def selective(self) -> bool:
        """Whether a request may be refused now (`verdict`)."""
        return self._threshold.limited or len(self._waiting) >= self._most

    def verdict(self, asked: Asked) -> Refusal | None:
        """Return why a request of this class and user may not begin; None if it may. Ask once for each request."""
        kind, asker = asked
        if kind is Class.ALWAYS:
            return None
        if self._threshold.limited and not self._threshold.admits(kind, self._places.of(asker, self._turn_at)):
            return Refusal(kind, Reason.PRIORITY)
        if len(self._waiting) >= self._most:
            self._overflowed = True
            return Refusal(kind, Reason.FULL)
        return None

    def join(self, one: Waiting, *, checked: bool = False) -> Refusal | None:
        """Begin a request now or in a later turn; return why not, if the caller must refuse it instead.

        `checked`: `verdict` has been asked for it.
        """
        if not checked and self.selective and (refusal := self.verdict(one.asked_for())) is not None:
            return refusal
        if not self._turning:
            self._turning, self._turn_at, self._left = True, self._time(), self._per_turn
            self._loop.call_soon(self._next_turn)
        if self._left:
            self._left -= 1
            self._at_once += 1
            one.begin()
        else:
            one.arrived_at, one.in_line = self._turn_at, True
            self._waiting.append(one)
        return None

    def adjust(self) -> None:
        """Take in what the last window has seen; call it every WINDOW_S."""
        now = self._time()
        windows = max(0.5, (now - self._adjusted_at) / WINDOW_S)
        self._adjusted_at = now
        self._threshold.adjust(self._begun / windows, windows, behind=self._overflowed)
        # A queue that stands is kept short; a burst on a calm gateway finds room.
        short = max(LINE_LEAST, int(self._begun / windows * LINE_S / WINDOW_S))
        self._most = short if self._threshold.refuses else BURST
        _waits.set(self._wait_s / self._begun if self._begun else 0.0)
        self._begun = 0
        self._wait_s = 0.0
        self._overflowed = False

    def _too_late(self, one: Waiting, now: float) -> Refusal | None:
        """Return why a request that has waited need not begin any more; None if it begins."""
        waited_s, kind = now - one.arrived_at, one.asked_for().kind
        if kind is Class.ALWAYS:
            return None
        if waited_s >= one.timeout_s():
            return Refusal(kind, Reason.TIMEOUT)
        return Refusal(kind, Reason.WAITED) if waited_s > LATE_S else None

    def _next_turn(self) -> None:
        now, before, waiting = self._time(), self._turn_at, self._waiting
        turn_s = now - before
        self._turn_at = now
        self._begun += self._at_once
        # Those that did not stand in line could be read since the turn before.
        self._wait_s += self._at_once * turn_s
        self._at_once = 0
        # A long turn must not make fewer of them begin in a second.
        places = left = max(self._per_turn, min(PER_TURN_MOST, int(turn_s * BEGIN_PER_S)))
        late, old = LATE_A_TURN, now - OLD_S
        try:
            while waiting and left and late:
                one = waiting.popleft()
                one.in_line = False
                if one.left:
                    continue
                if one.arrived_at < old and (refusal := self._too_late(one, now)) is not None:
                    late -= 1
                    one.refuse(refusal)
                    continue
                left -= 1
                self._begun += 1
                self._wait_s += now - one.arrived_at
                one.begin()
        finally:
            # Also if one connection failed, which the loop logs: the others must not wait for ever.
            self._left = left
            self._turning = bool(left < places or late < LATE_A_TURN or waiting)
            if self._turning:
                self._loop.call_soon(self._next_turn)


def read_timeout(text: str | bytes | None, otherwise_s: float) -> float:
    """Return the seconds of a header `X-Request-Timeout-Ms`, within TIMEOUTS_S; what is no number is ignored."""
    if not text:
        return otherwise_s
    try:
        given_s = int(text) / 1000
    except ValueError:
        return otherwise_s
    least, most = TIMEOUTS_S
    return min(most, max(least, given_s))
