"""Makes the connections of a gateway; all of them share one dispatcher, one line and their bounds."""

import asyncio
from typing import Any, Final, cast

from aiohttp import web

from gateway.admission.line import Line
from gateway.connection import Connection
from gateway.connection_bounds import ConnectionBounds, Held
from gateway.dispatch import Dispatching
from gateway.http.sockets import bound_unsent
from gateway.identity.auth_failures import CLIENT_ADDRESS
from gateway.limits import HEADER_BYTES, HEADERS, KEEP_ALIVE_S, SMALL_ANSWER
from gateway.refusals import Refusals
from gateway.unsent import UnsentAnswers

_SETTINGS: Final[dict[str, Any]] = {
    "access_log": None,
    "keepalive_timeout": KEEP_ALIVE_S,
    "max_headers": HEADERS,
    "max_field_size": HEADER_BYTES,
    # A compressed body is refused, so it must not be inflated first.
    "auto_decompress": False,
}


class ConnectionFactory(web.Server):
    """Makes a `Connection` for each client that connects; all of them share one dispatcher and one line.

    Must be made inside a running event loop. `gateway.acceptor` listens and stops it.
    """

    def __init__(
        self,
        dispatcher: Dispatching,
        bounds: ConnectionBounds,
        unsent: UnsentAnswers,
        line: Line,
        refusals: Refusals,
        kind: type[Connection] = Connection,
    ) -> None:
        """`kind`: the class of the connections."""
        super().__init__(cast("Any", dispatcher.serve), **_SETTINGS)
        self._kind = kind
        self.dispatcher = dispatcher
        self.bounds = bounds
        self.unsent = unsent
        self.line = line
        self.refusals = refusals
        self.draining = False
        """Whether the first answer on a new connection is its last (`drain`)."""

    def drain(self) -> list[Held]:
        """End each connection that is still to come with its first answer; return those that are there."""
        self.draining = True
        return self.bounds.all()

    def __call__(self) -> web.RequestHandler:
        """Return the protocol of a new connection."""
        return self.in_place_of(None, b"")

    def in_place_of(self, counted_as: Held | None, data: bytes, *, admitted: bool = False) -> web.RequestHandler:
        """Return the protocol of a connection that was counted as `counted_as`, and on which `data` has been read.

        `admitted`: the first request in it may begin.
        """
        one = self._kind(self, loop=asyncio.get_running_loop(), **_SETTINGS)
        one.counted_as, one.first, one.admitted = counted_as, data, admitted
        return one

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        """Set the client's address for the task that serves the connection: aiohttp makes it next, in this context."""
        name = transport.get_extra_info("peername")
        address = str(name[0]) if isinstance(name, tuple) else ""
        CLIENT_ADDRESS.set(address)
        connection = cast("Connection", handler)
        connection.made(address, proxied=self.bounds.proxies.trusts(address))
        before, connection.counted_as = connection.counted_as, None
        if before is not None:
            self.bounds.replace(before, connection)
        else:
            self.bounds.add(connection)
        # What is beyond it pauses the connection at once, and is counted (`Connection._drained`).
        transport.set_write_buffer_limits(high=SMALL_ANSWER)
        bound_unsent(transport)
        super().connection_made(handler, transport)

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        """Forget the connection."""
        self.bounds.remove(cast("Connection", handler))
        super().connection_lost(handler, exc)
