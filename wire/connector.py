"""Makes the connections of a link, one after the other, and says why none can be made."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from http import HTTPStatus

import aiohttp
import msgspec

from runtime import logs
from runtime.tls import Tls
from runtime.tls import session as tls_session
from runtime.tls_errors import sentence_of
from wire.ask import greet
from wire.framing import LINK_PATH, LinkEnded
from wire.handshake import LinkRefused, Prover
from wire.keys import LinkKey
from wire.limits import CLOSE_S, CONNECT_S, HEARTBEAT_S, MAX_FRAME_BYTES
from wire.versions import Peer

_log = logs.get("wire")


class Connector:
    """Of the link to the server `name` at `url`; parameters as for `wire.link.Link`."""

    def __init__(self, name: str, url: str, *, key: LinkKey, tls: Tls | None) -> None:
        self._name = name
        self._url = url.rstrip("/") + LINK_PATH
        self._key = key
        self._tls = tls
        self.peer = Peer()
        """What the other end is, from the first connection on."""
        self.refusal = ""
        """Why no connection can be made until an operator mends it; empty while there is one, or may be one soon."""
        self._refusals = 0
        """Attempts in a row that the other end refused, or that ended because it could not prove its key."""
        self._noted: Peer | None = None

    def session(self) -> aiohttp.ClientSession:
        """Return the HTTP session that `serve` needs."""
        return tls_session(self._tls)

    async def serve(
        self, session: aiohttp.ClientSession, use: Callable[[aiohttp.ClientWebSocketResponse], Awaitable[None]]
    ) -> bool:
        """Connect and `use` the connection until it ends, however it ends; return whether it was made."""
        connected = False
        try:
            async with contextlib.AsyncExitStack() as stack:
                async with asyncio.timeout(CONNECT_S):
                    socket = await stack.enter_async_context(self._prove(session))
                connected, self._refusals, self.refusal = True, 0, ""
                self._note_peer()
                await use(socket)
        except* LinkEnded:
            pass
        except* LinkRefused as group:
            # The first may be a server that restarted between the two requests: it does not know our challenge.
            self._refusals += 1
            if self._refusals > 1:
                self._note_refusal(str(getattr(group.exceptions[0], "detail", group.exceptions[0])))
        except* (aiohttp.ClientError, OSError, TimeoutError) as group:
            if sentence := sentence_of(group, self._url.removesuffix(LINK_PATH)):
                self._note_refusal(f"{self._name}: {sentence}")
            _log.debug("link lost", peer=self._name, error=str(group.exceptions[0]))
        except* (msgspec.DecodeError, ValueError, IndexError, TypeError) as group:
            text = str(group.exceptions[0])
            _log.error("a frame cannot be read; is the other end of another version?", peer=self._name, error=text)
        except* Exception as group:  # noqa: BLE001 - a fault of this connection must not end its process
            _log.error("a link failed; it is made anew", peer=self._name, exc_info=group)
        return connected

    @contextlib.asynccontextmanager
    async def _prove(self, session: aiohttp.ClientSession) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        """Yield a connection whose ends have proven themselves (`wire.handshake`); raises LinkRefused."""
        prover = Prover(self._key, self._name, LINK_PATH)
        answer = await greet(session, prover, self._url)
        try:
            async with session.ws_connect(
                self._url,
                headers={"Authorization": answer},
                heartbeat=HEARTBEAT_S,
                max_msg_size=MAX_FRAME_BYTES,
                compress=0,
                timeout=aiohttp.ClientWSTimeout(ws_close=CLOSE_S),
            ) as socket:
                first = await socket.receive()
                if first.type is not aiohttp.WSMsgType.TEXT:
                    raise aiohttp.ClientConnectionError("the connection ended before the server had proven itself")
                self.peer = prover.check(first.data)
                yield socket
        except aiohttp.WSServerHandshakeError as error:
            if error.status == HTTPStatus.UNAUTHORIZED:
                raise prover.refused() from error
            if error.status == HTTPStatus.FORBIDDEN:
                raise prover.wrong_certificate() from error
            raise

    def _note_refusal(self, reason: str) -> None:
        """Say why the link cannot come up, once for each reason."""
        if reason != self.refusal:
            self.refusal = reason
            _log.error("link refused", peer=self._name, error=reason)

    def _note_peer(self) -> None:
        """Say which release the other end is of, where that is another one than at the connection before."""
        version, release, capabilities = self.peer
        if self.peer != self._noted:
            self._noted = self.peer
            words = sorted(capabilities)
            _log.info("link", peer=self._name, version=version, release=release or "before 3", capabilities=words)
