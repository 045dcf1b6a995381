"""Step 1 of a request: one client's connection. Requests are parsed, answered in order, and written as bytes.

aiohttp parses, buffers, and applies back-pressure and keep-alive timeouts; its loop over requests is replaced by
`Connection.start`, because that loop makes a task, a writer and a response of header maps for each request: more work
than an open (docs/decisions/0008-gateway-request-loop.md). The replacement works on private state of aiohttp, all of
which is listed in `gateway.http.aiohttp_private`.
"""

import asyncio
import contextlib
import random
from typing import Any, Final, Protocol, cast

from aiohttp import hdrs, web
from aiohttp.http import HttpVersion10, HttpVersion11
from aiohttp.streams import EMPTY_PAYLOAD, StreamReader

from gateway.admission.bare import look
from gateway.admission.line import Asked, Line, Refusal, read_timeout
from gateway.admission.priority import Class
from gateway.connection_bounds import ConnectionBounds, Held
from gateway.dispatch import Dispatching
from gateway.http.aiohttp_private import MALFORMED, MalformedHead
from gateway.http.answer import Answer, Stream
from gateway.http.request import Request
from gateway.http.sockets import forget_unsent
from gateway.identity.auth_failures import CLIENT_ADDRESS, network_of
from gateway.limits import (
    CONNECTION_AGE_S,
    KEEP_ALIVE_S,
    LINGER_S,
    SMALL_BODY,
    TAKE_S,
)
from gateway.refusals import Refusals
from gateway.unsent import UnsentAnswers

X_TIMEOUT: Final = "X-Request-Timeout-Ms"
"""Header: how long the client waits for the answer."""
_VERSIONS: Final = (HttpVersion11, HttpVersion10)


class Shared(Protocol):
    """What all connections of a gateway share (`gateway.connection_factory.ConnectionFactory`)."""

    dispatcher: Dispatching
    bounds: ConnectionBounds
    unsent: UnsentAnswers
    line: Line
    refusals: Refusals
    draining: bool
    """Whether the first answer on a new connection is its last."""


class Connection(web.RequestHandler):
    """Answers requests one after the other until client or server ends the connection.

    A client that hangs up cancels no handler: the handler's answer is dropped once it is there.
    """

    _current_request: Any
    """A `Request`; aiohttp uses nothing of it but `_cancel`."""

    __slots__ = (
        "address",
        "admitted",
        "arrived_at",
        "asked",
        "began",
        "began_at",
        "counted_as",
        "ends_at",
        "first",
        "idle_since",
        "in_line",
        "last",
        "line",
        "proxied",
        "refusals",
        "refused",
    )

    first: bytes
    """What was read before there was a transport."""
    admitted: bool
    """Whether the next request may begin without standing in line."""
    counted_as: Held | None
    """What the connection was counted as until there was a transport (`gateway.connection_bounds`)."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin, with what has been read before."""
        super().connection_made(transport)
        first: bytes = self.first
        self.first = b""
        if first:
            self.data_received(first)

    def made(self, address: str, *, proxied: bool) -> None:
        """Note where the client is, before the first byte comes; `proxied`: its address is that of a trusted proxy."""
        self.address = address
        self.proxied = proxied
        # What `connection_bounds` needs to know of it.
        self.asked = self.began = False
        self.began_at: float | None = None
        self.idle_since: float = self._loop.time()
        factory = cast("Shared", self._manager)
        self.line, self.refusals = factory.line, factory.refusals
        self.last = factory.draining
        """Whether the next answer is the last one."""
        self.ends_at = self._loop.time() + random.uniform(0.5, 1.0) * CONNECTION_AGE_S  # noqa: S311 - no secret
        self.in_line = False
        self.arrived_at = 0.0
        self.refused: Refusal | None = None
        """Why the request that begins next is only refused, if its refusal needs more than one write."""

    def asked_for(self) -> Asked:
        """Return what the next request is (`gateway.admission`)."""
        head: Any = self._messages[0][0]
        if type(head) is MalformedHead:
            return Asked(Class.ALWAYS, b"")
        asker = str(head.headers.get(hdrs.AUTHORIZATION, "")).encode("utf-8", "surrogateescape")
        return Asked(self.line.promises.class_of(head.method, head.path, asker), asker)

    def timeout_s(self) -> float:
        """Return how long the client waits for the answer to the next request."""
        head: Any = self._messages[0][0]
        given = None if type(head) is MalformedHead else head.headers.get(X_TIMEOUT)
        return read_timeout(given, self.line.waits_s)

    @property
    def left(self) -> bool:
        """Whether the client has hung up."""
        return self.transport is None

    kept_s: Final = float("inf")
    """aiohttp's own timer ends it (KEEP_ALIVE_S)."""

    @property
    def serving(self) -> bool:
        """Whether a request is being answered, or waits for it."""
        return self._request_in_progress or bool(self._messages)

    def _process_keepalive(self) -> None:
        """End an idle connection (aiohttp's timer); one whose request stands in line is not idle."""
        if self.in_line:
            self._keepalive_handle = None
            self._idle()
        else:
            super()._process_keepalive()

    def close(self) -> None:
        """End the connection; a request that stands in line is answered before (aiohttp calls this at a stop)."""
        if self.in_line:
            self._close = True
        else:
            super().close()

    def retire(self) -> None:
        """End the connection with its next answer."""
        self.last = True

    def hang_up(self) -> None:
        """End the connection at once: no request is being answered on it, or its client does not read the answer."""
        if self.transport is not None:
            if self._paused:
                forget_unsent(self.transport)
            self.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Parse what has come; the first request of an idle connection joins the line."""
        waiter = self._waiter
        idle = waiter is not None and not waiter.done() and not self.in_line
        checked = False
        if self.line.selective and idle and not (self.admitted or self.began or self._messages or self._paused):
            bare = look(data)
            if bare is not None:
                asked = Asked(self.line.promises.class_of(bare.method, bare.path, bare.asker), bare.asker)
                if (refusal := self.line.verdict(asked)) is not None:
                    self._say(refusal)
                    return
                checked = True
        current = self._current_request
        # The rest of a body is no new head. aiohttp calls this without bytes as well.
        if data and (current is None or current.content.is_eof()):
            self.began = True
        # aiohttp would wake the task now. It is woken when its request may begin.
        self._waiter = None
        try:
            super().data_received(data)
        finally:
            self._waiter = waiter
        if idle and self._messages:
            self._join(checked=checked)

    def _say(self, refusal: Refusal) -> None:
        """Write a refusal; the connection is idle then."""
        transport = self.transport
        # Nothing follows an answer that has said that the connection ends.
        if transport is not None and not transport.is_closing():
            transport.write(self.refusals.make(refusal, last=self.last))
            if self.last:
                transport.close()
        self.asked = self._keepalive = True
        self._idle()

    def _join(self, *, checked: bool = False) -> None:
        """Stand in line with the next request, unless it is refused; then with the one behind it.

        `checked`: the next request has been admitted before it was parsed.
        """
        line, messages = self.line, self._messages
        if messages and self.admitted:
            self.admitted = False
            self.begin()
            return
        while messages and self.refused is None and (refusal := line.join(self, checked=checked)) is not None:
            checked = False
            self._refuse_next(refusal)

    def begin(self) -> None:
        """Wake the task: the request that is next may begin."""
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def refuse(self, refusal: Refusal) -> None:
        """Refuse the next request, which has stood in line; what came behind it joins the line."""
        self._refuse_next(refusal)
        self._join()

    def _refuse_next(self, refusal: Refusal) -> None:
        """Answer the next request with 503 `busy`, at once and without waking the task where one write is enough."""
        head: Any
        head, payload = self._messages[0]
        whole = payload is EMPTY_PAYLOAD or (payload.is_eof() and payload.total_bytes <= SMALL_BODY)
        if not whole or not _is_plain(head) or self._paused or self._upgraded:
            self.refused = refusal
            self.begin()
            return
        self._take()
        self._say(refusal)

    async def start(self) -> None:
        """Serve this connection (aiohttp calls it once the connection is made)."""
        # One function: split into coroutines, the steps would cost more than their work.
        factory, messages, loop = cast("Shared", self._manager), self._messages, self._loop
        dispatcher = factory.dispatcher
        try:
            alive = True
            while alive and not (self._force_close or self._close):
                # Stays set when it is done: aiohttp looks at `done` before it wakes or cancels the waiter.
                self._waiter = waiter = loop.create_future()
                if messages:
                    self._join()
                await waiter
                # The client left before its turn came: nothing has begun, and nobody would read the answer. A client
                # that is still connected is answered, also while the process stops.
                if self.transport is None:
                    break
                self._current_request = request = self._next_request()
                self._request_in_progress = True
                malformed = request.message is MALFORMED
                if self.refused is not None:
                    # Refused, in more than one write: a body is still to come, or the connection ends with the answer.
                    answer, self.refused = self.refusals.answer(self.refused), None
                else:
                    answer = await (dispatcher.malformed(request) if malformed else dispatcher.serve(request))
                if answer.stream is not None:
                    self._hand_over(request, answer, answer.stream)
                    return
                alive = self._write(request, answer)
                # A client that sends and does not read must not fill our memory: its next request waits until most of
                # this answer is sent.
                if self._paused and not await self._drained(factory.unsent, answer):
                    break
                self._finish()
                if request.content is not EMPTY_PAYLOAD and not request.content.is_eof():
                    alive = await self._drop(request.content) and alive
                self._idle()
                # An idle connection keeps no body and no answer.
                del request, answer
        except ConnectionError:
            pass
        finally:
            self._finish()
            if self.transport is not None:
                self.transport.close()

    def _idle(self) -> None:
        """Begin the time that the connection may idle: KEEP_ALIVE_S."""
        self.idle_since = now = self._loop.time()
        if now > self.ends_at:
            self.last = True
        self._next_keepalive_close_time = now + KEEP_ALIVE_S
        if self._keepalive_handle is None:
            self._keepalive_handle = self._loop.call_at(self._next_keepalive_close_time, self._process_keepalive)

    def _take(self) -> tuple[Any, StreamReader]:
        """Take the next request off the queue, and let the parser go on if the queue was full."""
        taken = self._messages.popleft()
        self.asked, self.began = True, False
        if self._parser is not None:
            self._parser.message_consumed()
        if self._buffer_paused and len(self._messages) <= self._msg_queue_resume_size:
            self._resume_reading_if_drained()
        return taken

    def _next_request(self) -> Request:
        """Take the next request off the queue; one that cannot be read comes with the head MALFORMED."""
        message, payload = self._take()
        head = message
        if type(message) is MalformedHead or head.version not in _VERSIONS:
            # The parser takes any version; of others than these two we do not know what they mean.
            head = MALFORMED
        if self.proxied:
            proxies = cast("Shared", self._manager).bounds.proxies
            CLIENT_ADDRESS.set(proxies.client_of(self.address, head.headers.getall("X-Forwarded-For", ())))
        return Request(head.method, head.path, head.headers, payload, not head.should_close, self.transport, head)

    def resume_reading(self, resume_parser: bool = True) -> None:
        """Go on reading, if reading is paused: aiohttp calls this at the end of every body, paused or not."""
        if resume_parser or self._reading_paused:
            super().resume_reading(resume_parser)

    def _write(self, request: Request, answer: Answer) -> bool:
        """Write the answer; return whether the connection goes on after it."""
        # An upgrade is answered like any other request and ends the connection: the parser stops at it and may drop a
        # part of what follows, so the next bytes could be the middle of a body.
        # A body in chunks ends it as well: the parser puts the last line of its trailer, which whoever sent the body
        # chose, among the headers of the next request. Behind a proxy that request may be another user's.
        last = (self._upgraded and not self._messages) or hdrs.UPGRADE in request.headers or request.message.chunked
        self._keepalive = alive = request.keep_alive and not (answer.close or self._close or self.last or last)
        if (transport := self.transport) is not None:
            transport.write(answer.encode(request, keep_alive=alive))
        return alive

    def _hand_over(self, request: Request, answer: Answer, stream: Stream) -> None:
        """Let a stream have the connection: this protocol ends as if the client had gone."""
        del request
        transport, factory = self.transport, cast("Shared | None", self._manager)
        if transport is None or factory is None:
            # The client has gone while its stream was made.
            stream.connection_lost(None)
            return
        last = self.last
        headers = b"%bX-Request-Id: %b\r\n" % (answer.headers, answer.request_id)
        stream.begin(transport, self.address, headers, factory.bounds.remove)
        factory.bounds.replace(self, cast("Held", stream))
        # aiohttp must not close what the stream has now.
        self.transport = self._current_request = None
        self.connection_lost(None)
        if last:
            stream.retire()

    async def _drained(self, unsent: UnsentAnswers, answer: Answer) -> bool:
        """Wait until the client has read most of the answer; if it has not within TAKE_S, abort and return False.

        Raises ConnectionError if the connection ends meanwhile: `unsent` may need its room.
        """
        if self.transport is None:
            return False
        # The transport keeps the whole answer until the last byte is out; our own copy of the body is not needed any
        # more. Small answers to requests that were sent at once add up as well.
        size, answer.body = len(answer.body), b""
        unsent.add(self, network_of(CLIENT_ADDRESS.get()), max(size, self.transport.get_write_buffer_size()))
        try:
            async with asyncio.timeout(TAKE_S):
                await self._drain_helper()
        except TimeoutError:
            self.hang_up()
            return False
        finally:
            unsent.remove(self)
        return True

    async def _drop(self, payload: StreamReader) -> bool:
        """Read and drop the rest of a body that no handler read; return whether it ended within LINGER_S."""
        with contextlib.suppress(TimeoutError, web.RequestPayloadError, ConnectionError):
            async with asyncio.timeout(LINGER_S):
                while not payload.is_eof():
                    await payload.readany()
        return payload.is_eof()

    def _finish(self) -> None:
        """Mark that no request is being answered, and wake a shutdown that waits for it."""
        self._current_request = None
        self._request_in_progress = False
        waiter = self._handler_waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)


def _is_plain(head: Any) -> bool:
    """Say whether a refusal in one write fits: HTTP/1.1, a connection that goes on, an answer with a body."""
    if type(head) is MalformedHead or head.version != HttpVersion11 or head.method == hdrs.METH_HEAD:
        return False
    return not (head.should_close or head.chunked or head.upgrade)
