"""What the calling end of a link has heard of the other end: that it is there, and how long requests wait there."""

import time
from collections.abc import Callable, Sequence

from wire.limits import LOAD_KEPT_S, SILENT_S


class Heard:
    """Of one connection at a time. What is said is in `wire.load`."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._heard_at = now()
        self._told_at = float("-inf")
        self._waits_ms: Sequence[int] = ()
        self._beats = False
        """Whether it says that it is there: it has said so on this connection, or told that it will."""

    def connected(self, *, beats: bool = False) -> None:
        """Begin anew: another connection, to a server that has said whether it `beats` (`versions.BEATS`)."""
        self._beats = beats
        self.begin_anew()

    def frame(self) -> None:
        """Note that something has come."""
        self._heard_at = self._now()

    def told(self, waits_ms: Sequence[int]) -> None:
        """Note how long requests wait there, by kind."""
        self._waits_ms, self._told_at, self._beats = waits_ms, self._now(), True

    def begin_anew(self) -> None:
        """Count silence from now on: this process has stood still itself, and maybe the whole machine."""
        self._heard_at = self._now()

    @property
    def silent(self) -> bool:
        """Whether it has said nothing for SILENT_S, though it has sent beats before."""
        return self._beats and self._now() - self._heard_at > SILENT_S

    def wait_s(self, kind: int) -> float:
        """Return how long requests of a kind wait there, as it said last; 0 if it is quiet."""
        if len(self._waits_ms) <= kind or self._now() - self._told_at > LOAD_KEPT_S:
            return 0.0
        return self._waits_ms[kind] / 1000
