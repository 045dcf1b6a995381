"""An answer as bytes: one write, no header objects.

aiohttp builds a response from header maps at some 25 µs; an open has the same headers every time, so its head is joined
from bytes made once. See `gateway.connection` for the measurement.
"""

import time
from email.utils import formatdate
from http import HTTPStatus
from typing import Final

import msgspec

from gateway.request import Request

JSON: Final = "application/json"
PROBLEM: Final = "application/problem+json"

encode_json: Final = msgspec.json.Encoder().encode


class Answer:
    """What the client gets. `close` ends the connection after it; `headers` are complete lines with CRLF."""

    __slots__ = ("body", "close", "content_type", "headers", "request_id", "status")

    def __init__(
        self, status: int, body: bytes, content_type: str = JSON, *, headers: bytes = b"", close: bool = False
    ) -> None:
        self.status = status
        self.body = body
        self.content_type = content_type
        self.headers = headers
        self.close = close
        self.request_id = ""

    def encode(self, request: Request, *, keep_alive: bool) -> bytes:
        """Return head and body as they go out, in one piece; no body for HEAD."""
        body = self.body
        head = b"%b%bX-Request-Id: %b\r\nDate: %b\r\nContent-Length: %d\r\n\r\n" % (
            _head(self.status, self.content_type),
            self.headers if keep_alive and not request.old else self._connection(keep_alive=keep_alive),
            self.request_id.encode(),
            _date(),
            len(body),
        )
        return head if request.method == "HEAD" else head + body

    def _connection(self, *, keep_alive: bool) -> bytes:
        """Say what HTTP/1.1 takes for granted when nothing is said, or that it ends."""
        return self.headers + (b"Connection: keep-alive\r\n" if keep_alive else b"Connection: close\r\n")


def json_answer(value: object, status: int = 200, *, headers: bytes = b"") -> Answer:
    """Return `value` as JSON."""
    return Answer(status, encode_json(value), headers=headers)


_heads: dict[tuple[int, str], bytes] = {}


def _head(status: int, content_type: str) -> bytes:
    """Return the status line and the headers that depend on nothing else. A few dozen there are."""
    head = _heads.get((status, content_type))
    if head is None:
        lines = (
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
            f"Content-Type: {content_type}",
            "X-Content-Type-Options: nosniff",
            # Balances and amounts belong to one user: no cache on the way may keep them.
            "Cache-Control: no-store",
            "",
        )
        head = _heads[status, content_type] = "\r\n".join(lines).encode()
    return head


class _Date:
    second = 0
    text = b""


def _date() -> bytes:
    # The wall clock of HTTP, not of the business: no rule hangs on it.
    now = int(time.time())
    if now != _Date.second:
        _Date.second, _Date.text = now, formatdate(now, usegmt=True).encode()
    return _Date.text
