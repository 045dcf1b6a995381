"""The answer to a request that is not begun: 503 `busy`, made of parts that are ready."""

import itertools
import secrets
from collections import Counter
from typing import Final

from errors import Unavailable
from gateway.admission.priority import OPERATIONS, Class
from gateway.admission.reason import Reason
from gateway.http.answer import PROBLEM, head_of
from gateway.limits import RETRY_S
from gateway.problem_answers import problem_answer
from runtime import metrics

_BUSY: Final = Unavailable("busy", "more people are here than can be served in time; nothing was done")
_NUMBER: Final = "0" * 16
_refused = metrics.counter("hongbao_refused_total", "Requests refused before they began", ("reason", "operation"))


class Refusals:
    """Makes refusals and counts them; `publish` hands the counts to Prometheus."""

    def __init__(self) -> None:
        self._numbers = itertools.count(secrets.randbits(40))
        self._counts: Counter[tuple[Reason, Class]] = Counter()
        self._bodies = {kind: self._body(OPERATIONS[kind]) for kind in Class}
        # In turn, so that those who are refused together do not come back together.
        self._waits = itertools.cycle([b"Retry-After: %d\r\n" % seconds for seconds in RETRY_S])

    def make(self, kind: Class, reason: Reason, *, last: bool = False) -> bytes:
        """Return a whole answer; `last`: the connection ends after it."""
        counts, key = self._counts, (reason, kind)
        counts[key] = counts.get(key, 0) + 1
        number = b"%016x" % next(self._numbers)
        before, after = self._bodies[kind]
        return b"%b%b%bX-Request-Id: %b\r\nContent-Length: %d\r\n\r\n%b%b%b" % (
            head_of(503, PROBLEM),
            next(self._waits),
            b"Connection: close\r\n" if last else b"",
            number,
            len(before) + len(number) + len(after),
            before,
            number,
            after,
        )

    def publish(self) -> None:
        """Add the counts since the last call to the Prometheus metric."""
        counts, self._counts = self._counts, Counter()
        for (reason, kind), number in counts.items():
            _refused.labels(reason.value, OPERATIONS[kind]).inc(number)

    def _body(self, operation: str) -> tuple[bytes, bytes]:
        before, _, after = problem_answer(_BUSY, _NUMBER.encode(), operation).body.partition(_NUMBER.encode())
        return before, after
