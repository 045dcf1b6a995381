"""The answering end of a link: decodes frames, passes each request to the handler, sends replies once per loop turn."""

import asyncio
import contextlib
from typing import Any, Protocol

import aiohttp
import msgspec
from aiohttp import web

from errors import HongbaoError, Refused, Unavailable
from runtime import logs, metrics
from wire.framing import LINK_PATH, NOTICE, frames
from wire.handshake import Admitted, Doorkeeper
from wire.limits import CLOSE_S, HEARTBEAT_S, MAX_FRAME_BYTES
from wire.messages import Op, error_reply

_log = logs.get("wire")
_frames = metrics.counter("hongbao_link_frames_total", "Frames received")
_requests = metrics.counter("hongbao_link_requests_total", "Requests received")


class Caller:
    """A connected caller and its outbox of replies. `reply` and `fail` may be called after it disconnected.

    `path` is that of the key which it has proven (`wire.keys`): its role, and whom it speaks for.
    """

    __slots__ = ("_flush", "_outbox", "epochs", "gone", "name", "path", "role")

    def __init__(self, name: str, path: str = "") -> None:
        self.name = name
        self.path = path
        self.role = path.partition("/")[0]
        self.gone = False
        self.epochs: tuple[int, ...] | None = None
        """The epochs of the databases in its topology, from its notice EPOCHS; None until it sends one."""
        self._outbox: list[list[Any]] = []
        self._flush = asyncio.Event()

    def reply(self, number: int, *values: Any) -> None:
        """Answer request `number` with `values`."""
        if self.gone:
            return
        if not self._outbox:
            self._flush.set()
        self._outbox.append([number, 0, *values])

    def fail(self, number: int, error: BaseException) -> None:
        """Answer request `number` with an error; one that is no HongbaoError is logged and sent as `internal_error`."""
        if not isinstance(error, HongbaoError):
            _log.error("unexpected error", request_id=f"{self.name}-{number}", exc_info=error)
            error = Unavailable("internal_error", "an unexpected error was logged", outcome_known=False)
        self._outbox.append(error_reply(number, error))
        self._flush.set()

    def on_notice(self, op: int, args: list[Any]) -> None:
        """Handle a notice: a request that has no reply."""
        if op == Op.EPOCHS:
            self.epochs = tuple(int(one) for one in args[0])

    async def write(self, socket: web.WebSocketResponse) -> None:
        """Send the outbox once per turn of the loop, until cancelled."""
        encode = msgspec.msgpack.Encoder().encode
        while True:
            await self._flush.wait()
            self._flush.clear()
            batch, self._outbox = self._outbox, []
            for frame in frames(encode, batch):
                await socket.send_bytes(frame)


class Handler(Protocol):
    """Serves requests: takes one without waiting and replies to `caller`, now or later."""

    def handle(self, caller: Caller, number: int, op: int, args: list[Any]) -> None:
        """Take one request; a HongbaoError may be raised and is sent back."""


def admit(doorkeeper: Doorkeeper, request: web.Request) -> Admitted:
    """Return who has proven to be the caller of `request`; else raise 401 with a challenge (`wire.handshake`)."""
    given = request.headers.get("Authorization", "")
    admitted = doorkeeper.admit(given, request.path)
    if admitted is None:
        raise web.HTTPUnauthorized(
            text="this address is for the system's own processes",
            headers={"WWW-Authenticate": doorkeeper.challenge(given)},
        )
    return admitted


def add_link(app: web.Application, handler: Handler, doorkeeper: Doorkeeper) -> None:
    """Serve links at LINK_PATH to callers that `doorkeeper` admits."""
    decode = msgspec.msgpack.Decoder(list[list[Any]]).decode

    async def accept(request: web.Request) -> web.StreamResponse:
        admitted = admit(doorkeeper, request)
        socket = web.WebSocketResponse(heartbeat=HEARTBEAT_S, max_msg_size=MAX_FRAME_BYTES, compress=False)
        await socket.prepare(request)
        await socket.send_str(admitted.proof)
        caller = Caller(str(request.remote), admitted.path)
        app[SOCKETS].add(socket)
        writer = asyncio.ensure_future(caller.write(socket))
        try:
            async for message in socket:
                if message.type is not aiohttp.WSMsgType.BINARY:
                    break
                _dispatch(handler, caller, decode(message.data))
        finally:
            caller.gone = True
            app[SOCKETS].discard(socket)
            writer.cancel()
            with contextlib.suppress(asyncio.CancelledError, ConnectionError, aiohttp.ClientError):
                await writer
        return socket

    app[SOCKETS] = set()
    app.router.add_get(LINK_PATH, accept)
    app.on_shutdown.append(_close_all)


SOCKETS: web.AppKey[set[Any]] = web.AppKey("links", set)


def _dispatch(handler: Handler, caller: Caller, frame: list[list[Any]]) -> None:
    _frames.inc()
    _requests.inc(len(frame))
    for request in frame:
        number, op, args = request[0], request[1], request[2:]
        try:
            if number == NOTICE:
                caller.on_notice(op, args)
                continue
            handler.handle(caller, number, op, args)
        except HongbaoError as error:
            caller.fail(number, error)
        except (TypeError, ValueError) as error:
            _log.warning("malformed request", request_id=f"{caller.name}-{number}", op=op, error=str(error))
            caller.fail(number, Refused("malformed_request", "the arguments do not fit the operation"))


async def _close_all(app: web.Application) -> None:
    sockets = app[SOCKETS]
    for socket in list(sockets):
        with contextlib.suppress(ConnectionError, TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await socket.close(code=aiohttp.WSCloseCode.GOING_AWAY)
