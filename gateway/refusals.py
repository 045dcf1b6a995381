"""The answer to a request that is not begun: 503 `busy`, made of parts that are ready."""

import itertools
import secrets
from collections import Counter
from http import HTTPStatus
from typing import Final

from errors import Unavailable
from gateway.admission.line import Refusal
from gateway.admission.priority import OPERATIONS, Class
from gateway.http.answer import PROBLEM, Answer, head_of
from gateway.http.origins import Origins
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
        self._counts: Counter[Refusal] = Counter()
        self._bodies = {kind: self._body(OPERATIONS[kind]) for kind in Class}
        # In turn, so that those who are refused together do not come back together.
        self._waits = itertools.cycle([b"Retry-After: %d\r\n" % seconds for seconds in RETRY_S])

    def answer(self, refusal: Refusal) -> Answer:
        """Return the same as an answer that the connection writes by its own rules."""
        number, before, after = self._begin(refusal)
        body = b"%b%b%b" % (before, number, after)
        return Answer(HTTPStatus.SERVICE_UNAVAILABLE, body, PROBLEM, headers=next(self._waits), request_id=number)

    def make(self, refusal: Refusal, *, last: bool = False) -> bytes:
        """Return a whole answer as bytes, for HTTP/1.1; `last`: the connection ends after it."""
        number, before, after = self._begin(refusal)
        return b"%b%b%bX-Request-Id: %b\r\nContent-Length: %d\r\n\r\n%b%b%b" % (
            head_of(HTTPStatus.SERVICE_UNAVAILABLE, PROBLEM),
            next(self._waits),
            b"Connection: close\r\n" if last else b"",
            number,
            len(before) + len(number) + len(after),
            before,
            number,
            after,
        )

    def next_for(self, data: bytes) -> None:
        """Note that the next refusal made is that of the request in `data`; here it is the same for all."""

    def publish(self) -> None:
        """Add the counts since the last call to the Prometheus metric."""
        counts, self._counts = self._counts, Counter()
        for (kind, reason), number in counts.items():
            _refused.labels(reason.value, OPERATIONS[kind]).inc(number)

    def _begin(self, refusal: Refusal) -> tuple[bytes, bytes, bytes]:
        """Count a refusal; return its request ID, and the body before and behind it."""
        counts = self._counts
        counts[refusal] = counts.get(refusal, 0) + 1
        return b"%016x" % next(self._numbers), *self._bodies[refusal.kind]

    def _body(self, operation: str) -> tuple[bytes, bytes]:
        before, _, after = problem_answer(_BUSY, _NUMBER.encode(), operation).body.partition(_NUMBER.encode())
        return before, after


class CrossOriginRefusals(Refusals):
    """Refusals that pages of other origins can read. Who makes one says before for whom: `next_for`, `next_lines`."""

    def __init__(self, origins: Origins) -> None:
        super().__init__()
        self.origins = origins
        self.next_lines = b""
        """The header lines of the refusal that is made next."""

    def next_for(self, data: bytes) -> None:
        """Note that the next refusal made is that of the request in `data`."""
        self.next_lines = self.origins.lines_in(data)

    def make(self, refusal: Refusal, *, last: bool = False) -> bytes:
        """Return a whole answer as bytes, with the lines behind its first."""
        status, _, rest = super().make(refusal, last=last).partition(b"\r\n")
        return b"%b\r\n%b%b" % (status, self.next_lines, rest)
