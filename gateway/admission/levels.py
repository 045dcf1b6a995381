"""Refuses calls for one server, or creates alone, while that server or the wallet says that a crowd waits there.

The servers tell how long requests wait (`wire.load`). Other servers' calls go on untouched.
"""

from collections.abc import Callable, Iterable
from typing import Final

from errors import Unavailable
from gateway.admission.priority import Class, Places
from gateway.admission.threshold import Threshold
from gateway.limits import WAIT_S
from runtime import metrics
from wire.link import Link
from wire.load import CREATES, OPENS
from wire.messages import Op

_CLASSES: Final = {
    Op.OPEN: Class.OPEN,
    Op.GRAB: Class.GRAB,
    Op.DETAIL: Class.VIEW,
    Op.WATCH: Class.VIEW,
    Op.CREATE: Class.CREATE,
}
_wait = metrics.gauge("hongbao_server_wait_seconds", "How long requests wait at a server, as it says", ("peer", "work"))
_refused = metrics.counter("hongbao_refused_by_level_total", "Calls refused because their server is behind", ("peer",))
_WORK: Final = {OPENS: "opens", CREATES: "creates"}


class Levels:
    """Knows what servers and wallet have said; `adjust` it every WINDOW_S, with the links there are."""

    def __init__(self, places: Places, now: Callable[[], float], wallet: Link) -> None:
        self._places = places
        self._now = now
        self._wallet = wallet
        self._thresholds: dict[tuple[str, int], Threshold] = {}
        self._done: dict[tuple[str, int], int] = {}
        self.limited = False
        """Whether calls must be asked for (`admit`)."""

    def admit(self, link: Link, op: int, user: str) -> list[tuple[str, int]]:
        """Raise Unavailable `busy` if a call must not begin; else return what `done` wants to hear."""
        kind = _CLASSES.get(Op(op))
        if kind is None:
            return []
        work = CREATES if kind is Class.CREATE else OPENS
        asked = [(link.name, work)]
        if kind is Class.CREATE:
            asked.append((self._wallet.name, OPENS))
        place = self._places.of(user.encode(), self._now())
        for key in asked:
            threshold = self._thresholds.get(key)
            if threshold is not None and threshold.limited and not threshold.admits(kind, place):
                _refused.labels(key[0]).inc()
                raise Unavailable("busy", "more people are here than can be served in time; nothing was done")
        return asked

    def done(self, asked: Iterable[tuple[str, int]]) -> None:
        """Count a call that was answered."""
        for key in asked:
            self._done[key] = self._done.get(key, 0) + 1

    def adjust(self, links: Iterable[Link]) -> None:
        """Take in what the servers have said last."""
        done, self._done = self._done, {}
        before, self._thresholds = self._thresholds, {}
        for link in (*links, self._wallet):
            for work in (OPENS,) if link is self._wallet else (OPENS, CREATES):
                waited_s, key = link.load_s(work), (link.name, work)
                threshold = before.pop(key, None)
                if threshold is None:
                    if not waited_s:
                        continue
                    threshold = Threshold()
                self._thresholds[key] = threshold
                _wait.labels(link.name, _WORK[work]).set(waited_s)
                threshold.adjust(done.get(key, 0), 1.0, behind=waited_s > WAIT_S)
        for name, work in before:
            # A server that has left the topology says nothing any more.
            _wait.remove(name, _WORK[work])
        self.limited = any(one.limited for one in self._thresholds.values())
