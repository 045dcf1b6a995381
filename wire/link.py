"""The calling end of a link: many calls in flight, one frame per loop turn, reconnect, deadlines, a bound.

Cancellation: a caller that is cancelled only lets go of its answer; the request itself is not recalled.
"""

import asyncio
import contextlib
import itertools
import random
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import aiohttp
import msgspec

from envelope.errors import Refused, Unavailable
from runtime import logs, metrics
from wire.messages import error_of

HEARTBEAT_S = 5.0
"""A peer that answers no ping for this long is taken for dead."""
CONNECT_S = 2.0
DEADLINE_S = 5.0
"""A call without an answer by then is given up as "outcome unknown"; must exceed the setnode's own waits."""
MAX_IN_FLIGHT = 20_000
"""Calls waiting on one link, also those whose callers have gone: the peer is still at work on them. Above it a call is
refused at once. About 1 KB each."""
MAX_FRAME_BYTES = 32 * 1024 * 1024
EAGER_CALLS = 32
"""With more calls than this in flight a frame waits for company: each costs system calls and a wake-up at both ends."""
GATHER_S = 0.001
REPLIES_PER_TURN = 32
"""Callers woken in one turn of the loop: the first of a large frame go on before the last are told."""
SWEEP_S = 0.05
"""Calls that are overdue are given up together, and this often at most."""
LINK_PATH = "/link"
SAID = 0
"""The number of what is said and not asked: there is no answer."""
NOBODY: tuple[None, float] = (None, 0.0)
"""Who waits for an answer that comes too late."""

_log = logs.get("wire")
_in_flight = metrics.gauge("hongbao_link_in_flight", "Calls waiting for an answer", ("peer",))
_lost = metrics.counter("hongbao_link_lost_total", "Connections lost or never made", ("peer",))
_late = metrics.counter("hongbao_link_deadline_total", "Calls given up at their deadline", ("peer",))


class Link:
    """One end of a connection to `url`; run `maintain()` in a task group, then `call` from anywhere.

    Replies come back as lists of values. Errors: what the peer raised; Unavailable(`peer_down`, outcome known)
    when the call was never sent; Unavailable(`outcome_unknown`) when it was sent and no answer came.
    `hello` gives what is said first on every connection: an operation and its arguments.
    """

    def __init__(
        self,
        name: str,
        url: str,
        *,
        key: str,
        deadline_s: float = DEADLINE_S,
        hello: Callable[[], list[Any]] | None = None,
    ) -> None:
        self.name = name
        self._hello = hello
        self._url = url.rstrip("/") + LINK_PATH
        self._key = key
        self._deadline_s = deadline_s
        self._numbers = itertools.count(1)
        # In order of sending, and with one deadline for all: the oldest is always first.
        self._waiting: dict[int, tuple[asyncio.Future[list[Any]], float]] = {}
        self._outbox: list[list[Any]] = []
        self._flush = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(list[list[Any]]).decode

    @property
    def up(self) -> bool:
        """Whether the peer is connected right now."""
        return self._socket is not None

    def call(self, op: int, *args: Any) -> asyncio.Future[list[Any]]:
        """Send a request and return the future of its reply values; raises Unavailable at once if it cannot be sent."""
        return self.ask([0, op, *args])

    def ask(self, request: list[Any]) -> asyncio.Future[list[Any]]:
        """Do what `call` does with `[any number, op, *args]`, a list that is the link's from then on."""
        if self._socket is None:
            raise Unavailable("peer_down", f"{self.name} is not connected; try again shortly", retry_after_s=0.5)
        waiting = self._waiting
        if len(waiting) >= MAX_IN_FLIGHT:
            raise Unavailable("busy", f"{self.name} has {MAX_IN_FLIGHT} calls waiting; try again shortly")
        loop = self._loop
        request[0] = number = next(self._numbers)
        future: asyncio.Future[list[Any]] = loop.create_future()
        waiting[number] = future, loop.time() + self._deadline_s
        outbox = self._outbox
        if not outbox:
            self._flush.set()
        outbox.append(request)
        return future

    def say(self, words: list[Any]) -> None:
        """Tell the peer something before all calls to come; nothing happens while it is away, see `hello`."""
        if self._socket is not None:
            self._outbox.append([SAID, *words])
            self._flush.set()

    async def maintain(self) -> None:
        """Keep the connection up until cancelled; reconnects with jitter."""
        attempt = 0
        self._loop = asyncio.get_running_loop()
        async with aiohttp.ClientSession(headers={"Authorization": f"Link {self._key}"}) as session:
            while True:
                connected = await self._live_once(session)
                _lost.labels(self.name).inc()
                attempt = 0 if connected else min(attempt + 1, 6)
                await asyncio.sleep(random.uniform(0.01, 0.03 * 2**attempt))  # noqa: S311 - jitter, no secret

    async def _live_once(self, session: aiohttp.ClientSession) -> bool:
        connected = False
        try:
            async with contextlib.AsyncExitStack() as stack:
                async with asyncio.timeout(CONNECT_S):
                    connecting = session.ws_connect(
                        self._url, heartbeat=HEARTBEAT_S, max_msg_size=MAX_FRAME_BYTES, compress=0
                    )
                    socket = await stack.enter_async_context(connecting)
                self._socket, connected = socket, True
                if self._hello is not None:
                    self.say(self._hello())
                async with _background(self._write(socket)), _background(self._sweep()):
                    await self._read(socket)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            _log.debug("link lost", peer=self.name, error=str(error))
        except (msgspec.DecodeError, ValueError, IndexError, TypeError) as error:
            _log.error("a peer of another version? It says what cannot be read", peer=self.name, error=str(error))
        finally:
            self._socket = None
            self._fail_all()
        return connected

    async def _write(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        while True:
            await self._flush.wait()
            if len(self._waiting) > EAGER_CALLS:
                await asyncio.sleep(GATHER_S)
            self._flush.clear()
            batch, self._outbox = self._outbox, []
            if batch:
                for frame in frames(self._frame, batch):
                    await socket.send_bytes(frame)

    def _frame(self, batch: list[list[Any]]) -> bytes:
        """Encode a frame; a call that cannot be encoded is refused alone and takes nobody with it."""
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
            replies = self._decode(message.data)
            for begin in range(0, len(replies), REPLIES_PER_TURN):
                if begin:
                    await asyncio.sleep(0)
                for reply in replies[begin : begin + REPLIES_PER_TURN]:
                    number, status, values = reply[0], reply[1], reply[2:]
                    # Understood before its caller is let go: one that cannot be is an answer that never came.
                    error = error_of(status, values) if status else None
                    future, _ = self._waiting.pop(number, NOBODY)
                    if future is None or future.done():
                        continue
                    if error is None:
                        future.set_result(values)
                    else:
                        future.set_exception(error)
            gauge.set(len(self._waiting))
            # An idle link keeps no frame.
            del message, replies

    async def _sweep(self) -> None:
        """Give up what is overdue; asleep until the oldest call is, or as long as one that comes now may take."""
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
                self._give_up(future)

    def _fail_all(self) -> None:
        waiting, self._waiting, self._outbox = self._waiting, {}, []
        for future, _ in waiting.values():
            self._give_up(future)

    def _give_up(self, future: asyncio.Future[list[Any]]) -> None:
        if future.done():
            return
        _late.labels(self.name).inc()
        future.set_exception(
            Unavailable(
                "outcome_unknown",
                f"no answer from {self.name} in time; repeat the request: it is safe and tells the real outcome",
                outcome_known=False,
            )
        )
        future.exception()  # a caller that hung up need not collect it


def frames(encode: Callable[[list[list[Any]]], bytes], batch: list[list[Any]]) -> Iterator[bytes]:
    """Encode a batch into frames that the other end accepts: halved until each fits."""
    data = encode(batch)
    if len(data) <= MAX_FRAME_BYTES // 2 or len(batch) == 1:
        yield data
        return
    middle = len(batch) // 2
    yield from frames(encode, batch[:middle])
    yield from frames(encode, batch[middle:])


@contextlib.asynccontextmanager
async def _background(work: Any) -> AsyncIterator[None]:
    """Run `work` beside the block and end it with the block."""
    task = asyncio.ensure_future(work)
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, aiohttp.ClientError, OSError):
            await task
