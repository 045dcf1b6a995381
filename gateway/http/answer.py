"""An answer as bytes: one write, no header objects.

aiohttp builds a response from header maps at some 25 µs; most answers of a second have the same headers, so their
head is made once in it. See `gateway.connection` for the measurement.
"""

import time
from email.utils import formatdate
from http import HTTPStatus
from typing import ClassVar, Final

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
    request_id: str = ""

    def __repr__(self) -> str:
        """Say nothing of the body: share tokens and balances are in it."""
        return f"Answer({self.status})"

    def encode(self, request: Request, *, keep_alive: bool) -> bytes:
        """Return head and body as they go out, in one piece; no body for HEAD."""
        body = self.body
        return b"%b%bX-Request-Id: %b\r\nContent-Length: %d\r\n\r\n%b" % (
            _head(self.status, self.content_type),
            self.headers if keep_alive and not request.old else self._connection(keep_alive=keep_alive),
            self.request_id.encode(),
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

    second = 0
    made: ClassVar[dict[tuple[int, str], bytes]] = {}


def _head(status: int, content_type: str) -> bytes:
    """Return the status line and the headers that depend on nothing but the second."""
    # The wall clock of HTTP, not of the business: no rule hangs on it.
    now = int(time.time())
    if now != _Heads.second:
        _Heads.second, _Heads.made = now, {}
    head = _Heads.made.get((status, content_type))
    if head is None:
        lines = (
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
            f"Content-Type: {content_type}",
            "X-Content-Type-Options: nosniff",
            # Balances and amounts belong to one user: no cache on the way may keep them.
            "Cache-Control: no-store",
            f"Date: {formatdate(now, usegmt=True)}",
            "",
        )
        head = _Heads.made[status, content_type] = "\r\n".join(lines).encode()
    return head
