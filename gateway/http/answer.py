"""An answer as bytes: one write, no header objects.

aiohttp builds a response from header maps at some 25 µs; most answers of a second have the same headers, so their
head is made once in it. See `gateway.connection` for the measurement.
"""

from email.utils import formatdate
from http import HTTPStatus
from time import monotonic, time
from typing import Final

import msgspec

from gateway.http.request import Request

JSON: Final = "application/json"
PROBLEM: Final = "application/problem+json"

encode_json: Final = msgspec.json.Encoder().encode


class Answer(msgspec.Struct, eq=False):
    """What the client gets. `close` ends the connection after it; `headers` are complete lines with CRLF."""

    status: int
    body: bytes
    content_type: str = JSON
    headers: bytes = b""
    close: bool = False
    request_id: bytes = b""

    def __repr__(self) -> str:
        """Say nothing of the body: share tokens and balances are in it."""
        return f"Answer({self.status})"

    def encode(self, request: Request, *, keep_alive: bool) -> bytes:
        """Return head and body as they go out, in one piece; no body for HEAD."""
        body = self.body
        heads = _heads if monotonic() < _heads.end else _heads.begin()
        return b"%b%bX-Request-Id: %b\r\nContent-Length: %d\r\n\r\n%b" % (
            heads.made.get((self.status, self.content_type)) or heads.make(self.status, self.content_type),
            self.headers if keep_alive and not request.old else self._connection(keep_alive=keep_alive),
            self.request_id,
            len(body),
            body if request.method != "HEAD" else b"",
        )

    def _connection(self, *, keep_alive: bool) -> bytes:
        """Say what HTTP/1.1 takes for granted when nothing is said, or that it ends."""
        return self.headers + (b"Connection: keep-alive\r\n" if keep_alive else b"Connection: close\r\n")


def json_answer(value: object, status: int = 200, *, headers: bytes = b"") -> Answer:
    """Return `value` as JSON."""
    return Answer(status, encode_json(value), headers=headers)


class _Heads:
    """What stands in front of all answers of one kind in one second. A few dozen kinds there are."""

    __slots__ = ("date", "end", "made")

    def __init__(self) -> None:
        self.made: dict[tuple[int, str], bytes] = {}
        self.date = ""
        self.end = 0.0
        """When the second is over, by the clock that nobody sets; long ago before the first."""

    def begin(self) -> "_Heads":
        """Begin a second."""
        # The wall clock of HTTP, not of the business: no rule hangs on it.
        begun, now = monotonic(), time()
        self.made, self.date, self.end = {}, formatdate(int(now), usegmt=True), begun + 1 - now % 1
        return self

    def make(self, status: int, content_type: str) -> bytes:
        """Return the status line and the headers that depend on nothing but the second."""
        lines = (
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
            f"Content-Type: {content_type}",
            "X-Content-Type-Options: nosniff",
            # Balances and amounts belong to one user: no cache on the way may keep them.
            "Cache-Control: no-store",
            f"Date: {self.date}",
            "",
        )
        head = self.made[status, content_type] = "\r\n".join(lines).encode()
        return head


_heads: Final = _Heads()
