"""How much of a gateway's time goes to streams: much of what it has to spare, little of what others need."""

from collections.abc import Callable

from gateway.limits import LIVE_SHARE, LIVE_SHARE_BUSY, LIVE_WINDOW_S, LIVE_WRITE_S, WRITES_KEPT


class Pace:
    """`share` is the part of the time that writing to streams may take now.

    Whether the process is busy with other things is read from its CPU time (`cpu_s`), once in a window.
    """

    __slots__ = ("_cpu_at", "_cpu_s", "_share", "_window_at", "_written_s", "write_s")

    def __init__(self, now: float, cpu_s: Callable[[], float]) -> None:
        self._cpu_s = cpu_s
        self._share = LIVE_SHARE
        self._window_at, self._cpu_at, self._written_s = now, cpu_s(), 0.0
        self.write_s = LIVE_WRITE_S
        """What a write takes, the mean of some turns."""

    def share(self, now: float) -> float:
        """Return the part of the time for streams."""
        window_s = now - self._window_at
        if window_s >= LIVE_WINDOW_S:
            cpu_at = self._cpu_s()
            others = (cpu_at - self._cpu_at - self._written_s) / window_s
            self._share = LIVE_SHARE if others < LIVE_SHARE else LIVE_SHARE_BUSY
            self._window_at, self._cpu_at, self._written_s = now, cpu_at, 0.0
        return self._share

    def wrote(self, streams: int, seconds: float) -> None:
        """Count a turn in which so many were written to."""
        if streams:
            self._written_s += seconds
            self.write_s += (seconds / streams - self.write_s) / WRITES_KEPT
