"""The answering end of a link: decodes frames, passes each request to the handler, sends replies once per loop turn."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any, Protocol

import aiohttp
import msgspec
from aiohttp import web

from errors import HongbaoError, Refused, Unavailable
from runtime import logs, metrics
from runtime.tls import role_of
from runtime.unreadable import UNREADABLE
from wire.framing import LINK_PATH, NOTICE, LinkEnded, end_of, frames
from wire.handshake import Admitted, Doorkeeper
from wire.limits import CLOSE_S, FAILURES_PER_S, HEARTBEAT_S, MAX_FRAME_BYTES, OUTBOX_BYTES, ROW_BYTES, STRANGERS_PER_S
from wire.load import Load
from wire.messages import LIVE, STOPPING, Op, Status, error_reply
from wire.versions import BEATS, Peer

_UNKNOWN = Peer()
_decode = msgspec.msgpack.Decoder(list[list[Any]]).decode
_log = logs.get("wire")
_failures = logs.Budget(FAILURES_PER_S)
_strangers = logs.Budget(STRANGERS_PER_S)
_frames = metrics.counter("hongbao_link_frames_total", "Frames received")
_callers = metrics.gauge(
    "hongbao_link_callers", "Callers that are connected, by their version of links and release", ("version", "release")
)
_requests = metrics.counter("hongbao_link_requests_total", "Requests received")


class Caller:
    """A connected caller and its outbox of replies. `reply` and `fail` may be called after it disconnected.

    `path` is that of the key which it has proven (`wire.keys`): its role, and whom it speaks for. The outbox holds at
    most OUTBOX_BYTES of what is shown (a reply whose first value is JSON or a list); a reply above that becomes
    `outcome_unknown`, because the request may have written something.
    """

    __slots__ = (
        "_encode", "_flush", "_outbox", "_shown_bytes", "epochs", "gone", "name", "path", "peer", "role", "trace",
        "watched",
    )  # fmt: skip

    def __init__(self, name: str, path: str = "", peer: Peer = _UNKNOWN) -> None:
        self.name = name
        self.path = path
        self.peer = peer
        """What it is (`wire.versions`): it is told what an older one cannot read only if it has the capability."""
        self.role = path.partition("/")[0]
        self.gone = False
        self.trace: tuple[int, bytes] | None = None
        """The call that it has announced as traced, and its context, until `wire.traced.take`."""
        self.epochs: tuple[int, ...] | None = None
        """The epochs of the databases in its topology, from its notice EPOCHS; None until it sends one."""
        self.watched: set[int] = set()
        """Envelopes of whose changes it wants to hear; a notice UNWATCH takes some out."""
        self._outbox: list[list[Any]] = []
        self._shown_bytes = 0
        """JSON and rows of lists in the outbox and in the frames that are being sent."""
        self._flush = asyncio.Event()
        self._encode = msgspec.msgpack.Encoder().encode

    def reply(self, number: int, *values: Any) -> None:
        """Answer request `number` with `values`."""
        if self.gone:
            return
        if values and (kind := type(values[0])) is not int:
            size = len(values[0]) if kind is bytes else len(values[0]) * ROW_BYTES if kind is list else 0
            if self._shown_bytes + size > OUTBOX_BYTES:
                self.fail(number, _outbox_full())
                return
            self._shown_bytes += size
        if not self._outbox:
            self._flush.set()
        self._outbox.append([number, 0, *values])

    def fail(self, number: int, error: BaseException) -> None:
        """Answer request `number` with an error; one that is no HongbaoError is logged and sent as `internal_error`.

        What is not the caller's fault is logged, FAILURES_PER_S at most, under the name that the caller has for it.
        """
        if not isinstance(error, HongbaoError):
            _log.error("unexpected error", call=f"{self.name}-{number}", exc_info=error)
            error = _internal_error()
        elif number and not isinstance(error, Refused) and (left_out := _failures.spend()) is not None:
            call = f"{self.name}-{number}"
            _log.warning("call failed", call=call, code=error.code, error=error.detail, left_out=left_out)
        if self.gone:
            return
        self._outbox.append(error_reply(number, error))
        self._flush.set()

    def tell_load(self, waits_ms: Sequence[int]) -> None:
        """Say how long requests wait here, by kind (`wire.load`)."""
        if not self.gone:
            self._outbox.append([NOTICE, Status.OK, *waits_ms])
            self._flush.set()

    def tell_live(self, envelope_id: int, frame: bytes, version: str) -> bool:
        """Tell of an envelope that it watches; False if it does not read what waits for it already: tell it later."""
        if self.gone or self._shown_bytes + len(frame) > OUTBOX_BYTES // 2:
            return False
        self._shown_bytes += len(frame)
        self._outbox.append([NOTICE, Status.OK, LIVE, envelope_id, frame, version])
        self._flush.set()
        return True

    def tell_leaving(self) -> None:
        """Say that nothing more is to be sent."""
        self.fail(NOTICE, Unavailable(STOPPING, "this server is going away", retry_after_s=0.5))

    def on_notice(self, op: int, args: list[Any]) -> None:
        """Handle a notice: a request that has no reply."""
        if op == Op.EPOCHS:
            self.epochs = tuple(int(one) for one in args[0])
        elif op == Op.UNWATCH:
            self.watched.difference_update(args[0])
        elif op == Op.TRACED:
            self.trace = args[0], args[1]

    async def write(self, socket: web.WebSocketResponse) -> None:
        """Send the outbox once per turn of the loop, until cancelled."""
        while True:
            await self._flush.wait()
            self._flush.clear()
            batch, self._outbox = self._outbox, []
            shown_bytes = self._shown_bytes
            for frame in frames(self._frame, batch):
                await socket.send_bytes(frame)
            self._shown_bytes -= shown_bytes

    def leave(self) -> None:
        """Drop what is not sent: the caller has disconnected. Later replies are dropped as well."""
        self.gone = True
        self._outbox = []

    def _frame(self, batch: list[list[Any]]) -> bytes:
        """Encode a frame; a reply that cannot be encoded fails alone."""
        try:
            return self._encode(batch)
        except Exception:  # noqa: BLE001 - whatever it was, `_encodable` finds the reply that it came from
            return self._encode([self._encodable(reply) for reply in batch])

    def _encodable(self, reply: list[Any]) -> list[Any]:
        try:
            self._encode(reply)
        except Exception as error:  # noqa: BLE001 - our own fault in one reply; the others are sent
            number = reply[0]
            _log.error("a reply cannot be encoded", call=f"{self.name}-{number}", exc_info=error)
            return error_reply(number, _internal_error())
        return reply


class Handler(Protocol):
    """Serves requests: takes one without waiting and replies to `caller`, now or later."""

    def handle(self, caller: Caller, number: int, op: int, args: list[Any]) -> None:
        """Take one request; a HongbaoError may be raised and is sent back."""


def admit(doorkeeper: Doorkeeper, request: web.Request) -> Admitted:
    """Return who has proven to be the caller of `request`; else raise 401 with a challenge (`wire.handshake`).

    Raises 403 for a caller whose certificate is of another role.
    """
    given = request.headers.get("Authorization", "")
    admitted = doorkeeper.admit(given, request.path)
    if admitted is None:
        raise web.HTTPUnauthorized(
            text="this address is for the system's own processes",
            headers={"WWW-Authenticate": doorkeeper.challenge(given)},
        )
    _check_certificate(request, admitted)
    return admitted


def _check_certificate(request: web.Request, admitted: Admitted) -> None:
    """Raise 403 unless the caller's certificate, if the connection has one, is of the role whose key it has proven.

    A certificate alone opens nothing, and neither does a key in the hands of a process of another role.
    """
    shown = request.get_extra_info("peercert")
    if not shown or role_of(shown) == admitted.path.rpartition("/")[0]:
        return
    if (left_out := _strangers.spend()) is not None:
        _log.warning(
            "a caller's certificate is of another role than its key",
            path=admitted.path, certificate=role_of(shown), left_out=left_out,
        )  # fmt: skip
    raise web.HTTPForbidden(text="not_permitted: the certificate is of another role than the key")


def add_link(app: web.Application, handler: Handler, doorkeeper: Doorkeeper, load: Load | None = None) -> None:
    """Serve links at LINK_PATH to callers that `doorkeeper` admits; they are told the `load`."""

    async def accept(request: web.Request) -> web.StreamResponse:
        admitted = admit(doorkeeper, request)
        socket = web.WebSocketResponse(heartbeat=HEARTBEAT_S, max_msg_size=MAX_FRAME_BYTES, compress=False)
        await socket.prepare(request)
        await socket.send_str(admitted.proof)
        caller = Caller(end_of(socket.get_extra_info("peername")), admitted.path, admitted.peer)
        app[SOCKETS].add(socket)
        try:
            async with _told(load, caller), asyncio.TaskGroup() as tasks:
                tasks.create_task(caller.write(socket))
                await _receive(socket, caller, handler)
                raise LinkEnded
        except* (LinkEnded, ConnectionError, aiohttp.ClientError):
            pass
        except* Exception as group:  # noqa: BLE001 - of this caller alone; it connects again
            _log.error("a caller's link failed and is closed", caller=caller.name, exc_info=group)
        finally:
            caller.leave()
            app[SOCKETS].discard(socket)
        return socket

    if load is not None:
        doorkeeper.capabilities.add(BEATS)
    app[SOCKETS] = set()
    app.router.add_get(LINK_PATH, accept)
    app.on_shutdown.append(_close_all)


@contextlib.asynccontextmanager
async def _told(load: Load | None, caller: Caller) -> AsyncIterator[None]:
    """Tell the caller of the load for the block, and count it."""
    counted = _callers.labels(str(caller.peer.version), caller.peer.release)
    counted.inc()
    if load is not None:
        load.add(caller)
    try:
        yield
    finally:
        counted.dec()
        if load is not None:
            load.remove(caller)


async def _receive(socket: web.WebSocketResponse, caller: Caller, handler: Handler) -> None:
    """Hand over what the caller sends, until it ends the connection or sends what cannot be read."""
    async for message in socket:
        if message.type is not aiohttp.WSMsgType.BINARY:
            return
        try:
            frame = _decode(message.data)
        except UNREADABLE as error:
            _log.error("a frame cannot be read; is the caller of another version?", error=str(error))
            return
        _dispatch(handler, caller, frame)


SOCKETS: web.AppKey[set[Any]] = web.AppKey("links", set)


def _dispatch(handler: Handler, caller: Caller, frame: list[list[Any]]) -> None:
    _frames.inc()
    _requests.inc(len(frame))
    for request in frame:
        number = NOTICE
        try:
            number, op, args = request[0], request[1], request[2:]
            if number == NOTICE:
                caller.on_notice(op, args)
                continue
            handler.handle(caller, number, op, args)
        except HongbaoError as error:
            caller.fail(number, error)
        except (TypeError, ValueError) as error:
            # With the traceback: the fault may be ours.
            _log.warning("malformed request", call=f"{caller.name}-{number}", exc_info=error)
            caller.fail(number, Refused("malformed_request", "the arguments do not fit the operation"))
        except Exception as error:  # noqa: BLE001 - one request's fault must not end the link of all others
            caller.fail(number, error)


def _internal_error() -> Unavailable:
    return Unavailable("internal_error", "an unexpected error was logged", outcome_known=False)


def _outbox_full() -> Unavailable:
    return Unavailable(
        "outcome_unknown", "too much waits to be sent to this caller; repeat the request", outcome_known=False
    )


async def _close_all(app: web.Application) -> None:
    sockets = app[SOCKETS]
    for socket in list(sockets):
        with contextlib.suppress(ConnectionError, TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await socket.close(code=aiohttp.WSCloseCode.GOING_AWAY)
