"""A way to Postgres that can go silent without closing anything, as a hung server or a lost network does."""

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator, Callable
from urllib.parse import urlsplit, urlunsplit

_CANCEL = 80877102
_TLS = 80877103


class Way:
    """One connection through the proxy. `said` is what the client introduced itself with."""

    def __init__(self) -> None:
        self.said = b""
        self.asks = asyncio.Event()
        self.answers = asyncio.Event()
        self.asks.set()
        self.answers.set()


class HangingProxy:
    """Forwards until told to hang; counts the cancel requests that pass."""

    def __init__(self, dsn: str) -> None:
        parts = urlsplit(dsn)
        self._server = (parts.hostname, parts.port)
        self._port = 0
        self._ways: set[Way] = set()
        self._clients: set[asyncio.StreamWriter] = set()
        self._listening: asyncio.Server | None = None
        self._hung = False
        self.cancels = 0

    def through(self, dsn: str) -> str:
        """Return `dsn` by way of this proxy."""
        parts = urlsplit(dsn)
        login = parts.netloc.rpartition("@")[0]
        return urlunsplit(parts._replace(netloc=f"{login}@127.0.0.1:{self._port}"))

    def hang(self) -> None:
        """Forward nothing more, on old connections and new ones; all stay open."""
        self._hung = True
        self.silence()

    def silence(self, name: bytes = b"", *, answers_only: bool = False) -> int:
        """Let the present connections of this application name forward nothing more (or no answers); returns them."""
        ways = [way for way in self._ways if name in way.said]
        for way in ways:
            way.answers.clear()
            if not answers_only:
                way.asks.clear()
        return len(ways)

    def wake(self) -> None:
        """Forward again, also what was sent meanwhile."""
        self._hung = False
        for way in self._ways:
            way.asks.set()
            way.answers.set()

    def vanish(self) -> None:
        """Close every connection and listen no more, as a server does that stops."""
        if self._listening is not None:
            self._listening.close()
        for client in self._clients:
            client.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        way = Way()
        if self._hung:
            way.asks.clear()
            way.answers.clear()
        self._ways.add(way)
        self._clients.add(writer)
        upstream = None
        try:
            server_reader, upstream = await asyncio.open_connection(*self._server)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._forward(reader, upstream, way.asks, lambda data: self._listen(way, data)))
                tasks.create_task(self._forward(server_reader, writer, way.answers, lambda _: None))
        except* (ConnectionError, _Ended):
            pass
        finally:
            self._ways.discard(way)
            self._clients.discard(writer)
            for one in (writer, upstream):
                if one is not None:
                    one.close()

    async def _forward(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        going: asyncio.Event,
        hears: Callable[[bytes], None],
    ) -> None:
        while data := await reader.read(65536):
            hears(data)
            await going.wait()
            writer.write(data)
            await writer.drain()
        raise _Ended

    def _listen(self, way: Way, data: bytes) -> None:
        code = struct.unpack("!I", data[4:8])[0] if len(data) >= 8 else 0
        if code == _CANCEL:
            self.cancels += 1
        elif code != _TLS and not way.said:
            way.said = data


class _Ended(Exception):
    """One side has closed; no error."""


@contextlib.asynccontextmanager
async def hanging_proxy(dsn: str) -> AsyncIterator[HangingProxy]:
    """Serve a proxy to the server of `dsn`."""
    proxy = HangingProxy(dsn)
    server = proxy._listening = await asyncio.start_server(proxy._accept, "127.0.0.1", 0)
    proxy._port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        proxy.wake()
        server.close()
