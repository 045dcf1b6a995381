"""The calling end of a link: many calls in flight, one frame per turn of the loop, reconnects, deadlines, a bound.

A server that is frozen or cut off keeps its connections. It is noticed by its silence: a server says every BEAT_S that
it is there (`wire.load`), and after SILENT_S without a word the link is given up and made anew.

Cancellation: cancelling the future of a call gives up its reply; the request itself is not recalled.
"""

import asyncio
import contextlib
import itertools
import random
from collections.abc import Callable
from typing import Any

import aiohttp
import msgspec

from errors import HongbaoError, Refused, Unavailable
from runtime import logs, metrics
from runtime.tls import Tls
from wire.connector import Connector
from wire.framing import NOTICE, LinkEnded, end_of, frames
from wire.heard import Heard
from wire.keys import LinkKey
from wire.limits import (
    CALL_BYTES,
    DEADLINE_S,
    EAGER_CALLS,
    GATHER_S,
    LISTEN_S,
    MAX_IN_FLIGHT,
    QUEUED_BYTES,
    RECONNECT_DOUBLINGS,
    RECONNECT_S,
    REPLIES_PER_S,
    REPLIES_PER_TURN,
    STOOD_STILL_S,
    SWEEP_S,
)
from wire.messages import LIVE, Op, error_of
from wire.traced import SENT_WITH
from wire.versions import BEATS, TRACES, Peer

PEER_DOWN = "peer_down"
_NO_CALLER: tuple[None, float] = (None, 0.0)
"""Stands for the caller of a reply that came too late."""

_log = logs.get("wire")
_in_flight = metrics.gauge("hongbao_link_in_flight", "Calls waiting for an answer", ("peer",))
_lost = metrics.counter("hongbao_link_lost_total", "Connections lost or never made", ("peer",))
_refused = metrics.counter("hongbao_link_refused_total", "Calls refused: too many, or too many bytes, wait", ("peer",))
_silent = metrics.counter("hongbao_link_silent_total", "Connections given up: the other end said nothing", ("peer",))
_late = metrics.counter("hongbao_link_deadline_total", "Calls given up at their deadline", ("peer",))


class NotSent(Unavailable):
    """This end's own word that nothing of a call was sent: it may be sent elsewhere.

    It is never decoded from a reply. What the other end says of its own peers is another error, whatever its code.
    """


class Link:
    """A connection to the server `name` at `url`; run `maintain()` in a task group, then `call` anywhere in the loop.

    A reply is a list of values. Errors: those the other end raised; NotSent (code `down_code`: not connected, or the
    connection was lost while the call was still queued here); Unavailable `busy` (nothing was sent: too many calls
    wait, or the other end does not read and too many bytes are queued); Refused `malformed_request` (cannot be
    encoded); Unavailable `outcome_unknown` (no reply within `deadline_s`, or the connection was lost after the call was
    sent). `tls` is what an https:// URL needs. `hello` returns the notice that is sent first on every connection:
    an operation, its arguments. `key` is this process's own (`wire.keys`); it is proven, never sent, and the other
    end proves that it is `name` before anything is sent to it.
    """

    def __init__(
        self,
        name: str,
        url: str,
        *,
        key: LinkKey,
        deadline_s: float = DEADLINE_S,
        hello: Callable[[], list[Any]] | None = None,
        tls: Tls | None = None,
    ) -> None:
        self.name = name
        self.down_code = PEER_DOWN
        """The code of NotSent. The wallet's client has one of its own: a process that passes it on to its caller must
        not seem to say that it is away itself."""
        self.on_live: Callable[[int, bytes, str], None] | None = None
        """Hears of each change of an envelope that was asked for (Op.WATCH): its ID, the frame, the frame's version."""
        self._hello = hello
        self._connector = Connector(name, url, key=key, tls=tls)
        self._deadline_s = deadline_s
        self._numbers = itertools.count(1)
        # By number, in order of sending. All have the same deadline, so the oldest is due first.
        self._waiting: dict[int, tuple[asyncio.Future[list[Any]], float]] = {}
        self._outbox: list[list[Any]] = []
        self._unweighed = MAX_IN_FLIGHT
        """How many calls may wait before the bytes of one more are counted. 0 while a frame is being sent: the other
        end may not be reading, and what is queued behind the frame is in memory."""
        self._queued_bytes = 0
        """Of the calls that were queued behind such a frame."""
        self._flush = asyncio.Event()
        self._heard = Heard()
        self._loop: asyncio.AbstractEventLoop
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self._end = ""
        """Address and port of this end; with a number it names a call in the logs of both ends."""
        self._open = False
        """Whether calls are sent: connected, and the other end has not said that it goes away."""
        self.lost_at = float("-inf")
        """When that ended last; at first, when `maintain` began (loop time)."""
        self.losses = 0
        """How often it has ended."""
        self._came = asyncio.Event()
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(list[list[Any]]).decode

    @property
    def peer(self) -> Peer:
        """What the other end is (`wire.versions`), from the first connection on.

        A server of an older release is asked for what it may not have only if it has the capability.
        """
        return self._connector.peer

    @property
    def refusal(self) -> str:
        """Why this link cannot come up until an operator mends it; empty while it is up or may come up."""
        return self._connector.refusal

    @property
    def up(self) -> bool:
        """Whether the other end is connected right now, and stays."""
        return self._open

    async def returns(self, within_s: float) -> bool:
        """Wait until the other end is connected, as long as it has been away for less than `within_s`; say if it is."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(self.lost_at + within_s):
                await self._came.wait()
        return self._open

    def load_s(self, kind: int = 0) -> float:
        """Return how long requests of a kind wait at the other end (`wire.load`), as it said last; 0 if it is quiet."""
        return self._heard.wait_s(kind)

    def call(self, op: int, *args: Any) -> asyncio.Future[list[Any]]:
        """Send a request and return the future of its reply values; raises Unavailable at once if it cannot be sent."""
        return self.send([0, op, *args])

    def send(self, request: list[Any]) -> asyncio.Future[list[Any]]:
        """As `call`, for `[0, op, *args]`; the link owns the list from then on and writes the number into it."""
        if not self._open:
            raise self._not_sent()
        waiting = self._waiting
        if len(waiting) >= self._unweighed:
            self._weigh(request)
        loop = self._loop
        request[0] = number = next(self._numbers)
        future: asyncio.Future[list[Any]] = loop.create_future()
        waiting[number] = future, loop.time() + self._deadline_s
        outbox = self._outbox
        if not outbox:
            self._flush.set()
        if (trace := SENT_WITH.get()) is not None and TRACES in self.peer.capabilities:
            outbox.append([NOTICE, Op.TRACED, number, trace])
        outbox.append(request)
        return future

    def _weigh(self, request: list[Any]) -> None:
        """Count the request among the bytes that are queued; raises Unavailable `busy` if there is no room for it."""
        if len(self._waiting) >= MAX_IN_FLIGHT:
            _refused.labels(self.name).inc()
            raise Unavailable("busy", f"{self.name} has {MAX_IN_FLIGHT} calls waiting; try again shortly")
        try:
            size = len(self._encode(request)) + CALL_BYTES
        except (TypeError, ValueError, OverflowError):
            size = CALL_BYTES  # `_frame` fails the call alone
        if self._queued_bytes + size > QUEUED_BYTES:
            _refused.labels(self.name).inc()
            raise Unavailable("busy", f"{self.name} reads too slowly for what waits for it; try again shortly")
        self._queued_bytes += size

    def notify(self, notice: list[Any]) -> None:
        """Send `[op, *args]` without a reply, ahead of all later calls; dropped while not connected (see `hello`)."""
        if self._socket is not None:
            self._outbox.append([NOTICE, *notice])
            self._flush.set()

    async def maintain(self) -> None:
        """Keep the connection up until cancelled; reconnect after a pause with jitter."""
        attempt = 0
        self._loop = asyncio.get_running_loop()
        self.lost_at = self._loop.time()
        async with self._connector.session() as session:
            while True:
                connected = await self._connector.serve(session, self._serve)
                if (task := asyncio.current_task()) is not None and task.cancelling():
                    # Before Python 3.13 a task group that fails as it is cancelled raises only the failure.
                    raise asyncio.CancelledError
                _lost.labels(self.name).inc()
                attempt = 0 if connected else min(attempt + 1, RECONNECT_DOUBLINGS)
                await asyncio.sleep(random.uniform(0.3, 1.0) * RECONNECT_S * 2**attempt)  # noqa: S311 - jitter, no secret

    async def _serve(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        """Read, write and expire until one of them ends: then all end, and every call that waits is failed."""
        self._socket, self._open = socket, True
        self._end = end_of(socket.get_extra_info("sockname"))
        self._heard.connected(beats=BEATS in self.peer.capabilities)
        self._came.set()
        try:
            if self._hello is not None:
                self.notify(self._hello())
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._write(socket))
                tasks.create_task(self._expire())
                tasks.create_task(self._listen())
                await self._read(socket)
                raise LinkEnded
        finally:
            # Before the connection is closed, which takes time: no call may be taken for a writer that has ended.
            self._socket = None
            self._close()
            self._fail_all()

    async def _write(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        while True:
            await self._flush.wait()
            if len(self._waiting) > EAGER_CALLS:
                await asyncio.sleep(GATHER_S)
            self._flush.clear()
            batch, self._outbox = self._outbox, []
            if batch:
                weighed = self._queued_bytes
                for frame in frames(self._frame, batch):
                    # Seen by others only if the frame must wait for the other end. An open on a link that is read pays
                    # nothing.
                    self._unweighed = 0
                    await socket.send_bytes(frame)
                    self._unweighed = MAX_IN_FLIGHT
                self._queued_bytes -= weighed

    def _frame(self, batch: list[list[Any]]) -> bytes:
        """Encode a frame; a call that cannot be encoded fails alone."""
        try:
            return self._encode(batch)
        except (TypeError, ValueError, OverflowError):
            return self._encode([request for request in batch if self._encodable(request)])

    def _encodable(self, request: list[Any]) -> bool:
        try:
            self._encode(request)
        except (TypeError, ValueError, OverflowError) as error:
            waiting = self._waiting.pop(request[0], None)
            if waiting is not None and not waiting[0].done():
                waiting[0].set_exception(Refused("malformed_request", f"this cannot be sent: {error}"))
            return False
        return True

    async def _read(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        gauge = _in_flight.labels(self.name)
        async for message in socket:
            if message.type is not aiohttp.WSMsgType.BINARY:
                break
            self._heard.frame()
            replies = self._decode(message.data)
            begin, many = 0, REPLIES_PER_TURN
            while begin < len(replies):
                if begin:
                    turn_at = self._loop.time()
                    await asyncio.sleep(0)
                    # In a turn that took long more are resolved, or they would wait for the next long ones.
                    many = max(REPLIES_PER_TURN, int((self._loop.time() - turn_at) * REPLIES_PER_S))
                some, begin = replies[begin : begin + many], begin + many
                for reply in some:
                    number, status, values = reply[0], reply[1], reply[2:]
                    # Decoded before the call is removed: if that fails, the call ends with the connection.
                    error = error_of(status, values) if status else None
                    future, _ = self._waiting.pop(number, _NO_CALLER)
                    if future is None or future.done():
                        if number == NOTICE:
                            self._on_notice(error, values)
                        continue
                    if error is None:
                        future.set_result(values)
                    else:
                        future.set_exception(self._named(error, number))
            gauge.set(len(self._waiting))
            # So that an idle link keeps no frame in memory.
            del message, replies

    def _on_notice(self, error: HongbaoError | None, values: list[Any]) -> None:
        """Take in what the other end says of itself (`wire.load`), or of an envelope that is watched."""
        if error is not None:
            self._close()
        elif values and values[0] == LIVE:
            if self.on_live is not None:
                _, envelope_id, frame, version, *_ = values
                self.on_live(envelope_id, frame, version)
        elif all(type(value) is int for value in values):
            self._heard.told(values)

    def _close(self) -> None:
        """Send no more calls; those that are not sent yet go elsewhere."""
        if self._open:
            self._open, self.lost_at = False, self._loop.time()
            self.losses += 1
            self._came.clear()

    async def _listen(self) -> None:
        """End the connection once the other end is silent."""
        loop = self._loop
        while True:
            due = loop.time() + LISTEN_S
            await asyncio.sleep(LISTEN_S)
            if loop.time() - due > STOOD_STILL_S:
                self._heard.begin_anew()
            if self._heard.silent:
                _silent.labels(self.name).inc()
                _log.warning("a server is silent; its link is given up", peer=self.name, calls=len(self._waiting))
                raise LinkEnded

    async def _expire(self) -> None:
        """End overdue calls; sleep until the oldest call is due, or for one deadline if there is none."""
        loop = asyncio.get_running_loop()
        pause = self._deadline_s
        while True:
            await asyncio.sleep(max(SWEEP_S, pause))
            now, pause = loop.time(), self._deadline_s
            while self._waiting:
                number = next(iter(self._waiting))
                future, deadline = self._waiting[number]
                if deadline > now and not future.done():
                    pause = deadline - now
                    break
                del self._waiting[number]
                if not future.done():
                    _late.labels(self.name).inc()
                    self._fail_unknown(future, number)

    def _fail_all(self) -> None:
        waiting, outbox = self._waiting, self._outbox
        self._waiting, self._outbox = {}, []
        self._unweighed, self._queued_bytes = MAX_IN_FLIGHT, 0
        queued = {request[0] for request in outbox}
        for number, (future, _) in waiting.items():
            if number not in queued:
                self._fail_unknown(future, number)
            elif not future.done():
                future.set_exception(self._not_sent())
                future.exception()  # marks it as retrieved: the caller may have hung up

    def _not_sent(self) -> NotSent:
        error = NotSent(self.down_code, f"{self.name} is not connected; try again shortly", retry_after_s=0.5)
        error.peer = self.name
        return error

    def _named(self, error: HongbaoError, number: int) -> HongbaoError:
        """Say in the error which call it ended, for logs."""
        error.peer, error.call = self.name, f"{self._end}-{number}"
        return error

    def _fail_unknown(self, future: asyncio.Future[list[Any]], number: int) -> None:
        if future.done():
            return
        unknown = Unavailable(
            "outcome_unknown",
            f"no answer from {self.name} in time; repeat the request: it is safe and tells the real outcome",
            outcome_known=False,
        )
        future.set_exception(self._named(unknown, number))
        future.exception()  # marks it as retrieved: the caller may have hung up
