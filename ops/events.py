"""What happened to parts while somebody watched: away, back, restarted between two looks."""

from collections import deque
from collections.abc import Iterable, Mapping
from enum import StrEnum

import msgspec

from ops.exposition import Exposed, total
from ops.figures import START
from ops.limits import EVENTS
from ops.parts import Part
from ops.scrape import Look


class Happened(StrEnum):
    """What became of a part. RESTARTED: it was gone for less than the time between two looks."""

    AWAY = "away"
    BACK = "back"
    RESTARTED = "restarted"


class Event(msgspec.Struct, frozen=True):
    """`at_ms`: Unix time in ms of the look that saw it."""

    at_ms: int
    part: str
    what: Happened
    detail: str = ""


class Events:
    """Compares each look with the one before."""

    def __init__(self) -> None:
        self.latest: deque[Event] = deque(maxlen=EVENTS)
        self._up: dict[str, bool] = {}
        self._started: dict[str, float] = {}
        self._pids: dict[str, int] = {}

    def see(self, at_ms: int, parts: Iterable[Part], looks: Mapping[str, Look], exposed: Mapping[str, Exposed]) -> None:
        """Note what differs from the last look."""
        for one in parts:
            up, detail = looks[one.name].up, looks[one.name].detail
            was_up = self._up.get(one.name)
            again = self._restarted(one, exposed.get(one.name))
            if up and was_up is False:
                self.latest.append(Event(at_ms, one.name, Happened.BACK))
            elif not up and was_up is not False:
                self.latest.append(Event(at_ms, one.name, Happened.AWAY, detail))
            elif up and again:
                self.latest.append(Event(at_ms, one.name, Happened.RESTARTED))
            self._up[one.name] = up

    def _restarted(self, part: Part, exposed: Exposed | None) -> bool:
        started = total(exposed, START) if exposed else 0.0
        before, pid = self._started.get(part.name, 0.0), self._pids.get(part.name, 0)
        if started:
            self._started[part.name] = started
        if part.pid:
            self._pids[part.name] = part.pid
        return bool(
            (before and started and before != started) or (pid and part.pid and not started and pid != part.pid)
        )
