"""What the metrics of the process that delivers a SET's events say of its sinks."""

import contextlib
from collections.abc import Iterable

from events.register import Sink, State
from runtime import metrics

_LABELS = ("sink", "set")
_behind = metrics.gauge("hongbao_events_behind_seconds", "Age of the oldest commit that a sink has not passed", _LABELS)
_retried = metrics.gauge("hongbao_events_retried", "Events that are retried apart from the others", _LABELS)
_failing = metrics.gauge(
    "hongbao_events_failing", "1 while no call of the receiver succeeds, and once it is disabled", _LABELS
)


class Gauges:
    """Those of one SET: of the sinks that stand there, also of paused and disabled ones, and of no others."""

    def __init__(self, set_name: str) -> None:
        self._set = set_name
        self._shown: set[str] = set()

    def show(self, sinks: Iterable[Sink]) -> None:
        """Show these sinks alone; none once another process has the SET."""
        found = {one.target.name: one for one in sinks}
        for name in self._shown - found.keys():
            for gauge in (_behind, _retried, _failing):
                with contextlib.suppress(KeyError):
                    gauge.remove(name, self._set)
        for name, one in found.items():
            _behind.labels(name, self._set).set(one.behind_s)
            _retried.labels(name, self._set).set(one.retried)
            _failing.labels(name, self._set).set(one.failing_since is not None or one.state == State.DISABLED)
        self._shown = set(found)
