"""Step 6 of a request: its answer as bytes, in one write and without header objects.

Answers of one status and content type have the same first lines within a second, so those are made once a second;
aiohttp's responses of header maps cost several times as much (docs/decisions/0008-gateway-request-loop.md).
"""

import asyncio
from collections.abc import Callable
from email.utils import formatdate
from http import HTTPStatus
from time import monotonic, time
from typing import Any, Final, Protocol

import msgspec

from gateway.http.request import Request

JSON: Final = "application/json"
PROBLEM: Final = "application/problem+json"

encode_json: Final = msgspec.json.Encoder().encode


class Stream(Protocol):
    """Takes the connection over, in place of an answer that is written once."""

    def begin(self, transport: asyncio.Transport, address: str, headers: bytes, lost: Callable[[Any], None]) -> None:
        """Write the head, with these lines in it, and go on; `lost` is called with the stream when it has ended."""

    def connection_lost(self, exc: BaseException | None) -> None:
        """Forget the stream."""

    def retire(self) -> None:
        """End it in good order: the gateway goes away."""


class Answer(msgspec.Struct, eq=False):
    """What the client receives. `headers` are complete lines with CRLF; with `close` the connection ends after it.

    `gateway.dispatch` fills in `request_id`.
    """

    status: int
    body: bytes
    content_type: str = JSON
    headers: bytes = b""
    close: bool = False
    request_id: bytes = b""
    stream: Stream | None = None
    """What goes on in place of this answer, until the connection ends."""

    def __repr__(self) -> str:
        """Leave the body out: it may hold share tokens and balances, and answers are logged."""
        return f"Answer({self.status})"

    def encode(self, request: Request, *, keep_alive: bool) -> bytes:
        """Return head and body as they are sent; no body for HEAD."""
        body = self.body
        return b"%b%bX-Request-Id: %b\r\nContent-Length: %d\r\n\r\n%b" % (
            head_of(self.status, self.content_type),
            self.headers if keep_alive and not request.http_1_0 else self._connection(keep_alive=keep_alive),
            self.request_id,
            len(body),
            body if request.method != "HEAD" else b"",
        )

    def _connection(self, *, keep_alive: bool) -> bytes:
        """Return the headers with `Connection`, which HTTP/1.1 needs only where the connection ends."""
        return self.headers + (b"Connection: keep-alive\r\n" if keep_alive else b"Connection: close\r\n")


class Bodiless(Answer):
    """204 and 304, which have no body; a Content-Length would be that of the body that a 200 has."""

    def encode(self, request: Request, *, keep_alive: bool) -> bytes:
        """Return the head as it is sent."""
        headers = self.headers if keep_alive and not request.http_1_0 else self._connection(keep_alive=keep_alive)
        head = head_of(self.status, self.content_type)
        return b"%b%bX-Request-Id: %b\r\n\r\n" % (head, headers, self.request_id)


def json_answer(value: object, status: int = 200, *, headers: bytes = b"") -> Answer:
    """Return an answer of `value` as JSON."""
    return Answer(status, encode_json(value), headers=headers)


class _Heads:
    """The heads of one second, by status and content type: a few dozen."""

    __slots__ = ("date", "end", "made")

    def __init__(self) -> None:
        self.made: dict[tuple[int, str], bytes] = {}
        self.date = ""
        self.end = 0.0
        """When the second ends, by the monotonic clock; 0 before the first."""

    def begin(self) -> "_Heads":
        """Forget the heads of the last second, and return self."""
        # The wall clock, for the header Date only: no rule of the business depends on it.
        begun, now = monotonic(), time()
        self.made, self.date, self.end = {}, formatdate(int(now), usegmt=True), begun + 1 - now % 1
        return self

    def make(self, status: int, content_type: str) -> bytes:
        """Make and remember the status line and the headers that every answer of this kind has in this second."""
        lines = (
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
            f"Content-Type: {content_type}",
            "X-Content-Type-Options: nosniff",
            # Balances and amounts are one user's: no cache on the way may keep them.
            "Cache-Control: no-store",
            f"Date: {self.date}",
            "",
        )
        head = self.made[status, content_type] = "\r\n".join(lines).encode()
        return head


_heads: Final = _Heads()


def date_now() -> str:
    """Return the value of the header `Date` for now."""
    return (_heads if monotonic() < _heads.end else _heads.begin()).date


def head_of(status: int, content_type: str) -> bytes:
    """Return the status line and the headers that every answer of this kind has now."""
    heads = _heads if monotonic() < _heads.end else _heads.begin()
    return heads.made.get((status, content_type)) or heads.make(status, content_type)
