"""What a process knows of the switches: read every LOOK_S, asked by those who serve requests."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Final

from errors import Refused, Unavailable
from runtime import logs, metrics
from runtime.clock import Clock
from runtime.periodic import Periodic
from sharding.topology import Topology
from switches.file import load
from switches.switch import Closes, Switch

LOOK_S: Final = 0.5
"""So often the file is looked at: a change is in force everywhere within a second."""
RETRY_S: Final = (1.0, 60.0)
"""Shortest and longest Retry-After of what is closed."""

_log = logs.get("switches")
_on = metrics.gauge("hongbao_switch_on", "1 while an operator has closed this", ("switch",))
_refused = metrics.counter("hongbao_switch_refused_total", "Requests refused because of a switch", ("switch",))


class Switchboard:
    """`closed` is whether anything is closed at all; only then `check` need be asked."""

    def __init__(self, path: Path, clock: Clock, topology: Callable[[], Topology]) -> None:
        self._path = path
        self._clock = clock
        self._topology = topology
        self._read: tuple[int, int, int] | None = None
        """Which file was read last: its number, size and time."""
        self._all: list[Switch] = []
        self._active: dict[Closes, list[Switch]] = {}
        self._names: set[str] = set()
        self._told = ""
        """The last complaint about the file."""
        self.closed = False
        self.look()

    def service(self) -> Periodic:
        """Return what looks every LOOK_S."""
        return Periodic("switches", self._round, interval_s=LOOK_S, jitter=0.0)

    def check(self, closes: Closes, envelope_id: int | None = None) -> None:
        """Raise Unavailable `degraded` if this kind of request is closed, for this envelope."""
        if (one := self.closing(closes, envelope_id)) is not None:
            _refused.labels(one.name).inc()
            least, most = RETRY_S
            left_s = (one.until - self._clock.now()).total_seconds()
            raise Unavailable(
                "degraded",
                f"{closes} are closed here by the operators until {one.until.isoformat(timespec='seconds')}; "
                "nothing was done",
                retry_after_s=min(most, max(least, left_s)),
            )

    def closing(self, closes: Closes, envelope_id: int | None = None) -> Switch | None:
        """Return the switch that closes this kind of request, for this envelope; None if it is open."""
        topology = self._topology()
        for one in self._active.get(closes, ()):
            if one.covers(topology, envelope_id):
                return one
        return None

    def closes_set(self, closes: Closes, name: str) -> bool:
        """Say whether this kind of work is closed for a whole SET."""
        return any(one.where in ("", name) for one in self._active.get(closes, ()))

    def look(self) -> None:
        """Read the file if it has changed, and go by what is on now; a file that cannot be read is logged."""
        try:
            self._reload()
            self._told = ""
        except Refused as refusal:
            if refusal.detail != self._told:
                self._told = refusal.detail
                _log.error("the switches cannot be read; what was closed stays so", error=refusal.detail)
        self._go_by(self._clock.now())

    async def _round(self) -> None:
        self.look()

    def _reload(self) -> None:
        try:
            found = self._path.stat()
            seen = found.st_ino, found.st_size, found.st_mtime_ns
        except FileNotFoundError:
            seen = 0, 0, 0
        except OSError as error:
            raise Refused("switches_unreadable", f"{self._path}: {error.strerror}") from error
        if seen != self._read:
            self._all = load(self._path)
            self._read = seen

    def _go_by(self, now: datetime) -> None:
        on = {one.name: one for one in self._all if one.until > now}
        for name, one in on.items():
            if name not in self._names:
                _log.warning("closed", switch=name, owner=one.owner, reason=one.reason, until=one.until.isoformat())
                _on.labels(name).set(1)
        for name in self._names - on.keys():
            _log.warning("open again", switch=name)
            _on.remove(name)
        self._names = set(on)
        self._active = {}
        for one in on.values():
            self._active.setdefault(one.closes, []).append(one)
        self.closed = bool(on)
