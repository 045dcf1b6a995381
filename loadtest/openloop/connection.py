"""One keep-alive connection that has at most one request in flight.

It reads answers of our own gateway only: one Content-Length in that spelling, never chunked, no 1xx. That makes it many
times cheaper than a general client (docs/performance/notebook.md).
"""

import asyncio
from typing import Final, Protocol, cast

_END: Final = b"\r\n\r\n"
_LENGTH: Final = b"\r\nContent-Length: "


class Owner(Protocol):
    """Receives answers and the end of the connection."""

    def answered(self, connection: "Connection", status: int, body: bytes) -> None:
        """Take the answer to the request in flight."""

    def lost(self, connection: "Connection", reason: str) -> None:
        """Note that the connection has ended."""


class Connection(asyncio.Protocol):
    """`number` and `due` are of the request in flight (number -1: none)."""

    __slots__ = ("_owner", "_rest", "_transport", "due", "number")

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._rest = b""
        self._transport: asyncio.Transport | None = None
        self.number = -1
        self.due = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way to send (asyncio)."""
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Report the end to the owner (asyncio)."""
        self._transport = None
        self._owner.lost(self, str(exc or "the gateway closed the connection"))

    def send(self, request: bytes, number: int, due: float) -> None:
        """Send a request; nothing may be in flight."""
        self.number = number
        self.due = due
        if self._transport is not None:
            self._transport.write(request)

    def close(self) -> None:
        """End it, also with a request in flight."""
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """Hand on the answer once it is whole (asyncio)."""
        if self._rest:
            data = self._rest + data
        end = data.find(_END)
        if end < 0:
            self._rest = data
            return
        at = data.find(_LENGTH, 0, end + 2)
        if at < 0:
            self.close()
            return
        at += len(_LENGTH)
        body = end + len(_END)
        whole = body + int(data[at : data.find(b"\r", at)])
        if len(data) < whole:
            self._rest = data
            return
        self._rest = b""
        self._owner.answered(self, int(data[9:12]), data[body:whole])
