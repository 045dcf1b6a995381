"""One client's connection: requests in, answers out, in order, without a task or a response object per request.

aiohttp parses, buffers, paces and times out; only its loop over requests is replaced. That one makes a task, a writer
and a response of header maps for each, which costs more than an open: a constant answer after one turn of the loop took
108 µs of CPU through `web.Application`, 31 to 46 through `web.Server` with bytes as answer, and takes 20 to 24 here.
The loop stands on names that aiohttp does not promise; the lock pins its version and the tests of HTTP hold every line.
"""

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, cast

from aiohttp import hdrs, web
from aiohttp.streams import EMPTY_PAYLOAD
from aiohttp.web_protocol import ERROR, _ErrInfo

from gateway.http.request import Request
from gateway.limits import KEEP_ALIVE_S, LINGER_S, TAKE_S

if TYPE_CHECKING:
    from aiohttp.streams import StreamReader

    from gateway.front import Front
    from gateway.http.answer import Answer


class Connection(web.RequestHandler):
    """Answers what comes until one side ends it. A client that hangs up cancels no handler."""

    _current_request: Any
    """A `Request` of ours, of which aiohttp asks nothing but that it can be told to `_cancel`."""

    async def start(self) -> None:
        """Serve this connection (called by aiohttp once it is made)."""
        # In one function: as coroutines of their own its steps cost more than what they do.
        front, messages, loop = cast("Front", self._manager), self._messages, self._loop
        try:
            alive = True
            while alive and not (self._force_close or self._close):
                if not messages:
                    # It stays when it is done: aiohttp asks whether it is, and to cancel it then does nothing.
                    self._waiter = loop.create_future()
                    await self._waiter
                if (turn := front.turnstile.enter()) is not None:
                    await turn
                    # Nothing has begun for it, and nobody would hear the answer. Who is still there is answered, also
                    # while we stop.
                    if self.transport is None:
                        break
                self._current_request = request = self._take()
                self._request_in_progress = True
                answer = await (front.malformed(request) if request.message is ERROR else front.serve(request))
                alive = self._write(request, answer)
                # Who asks and does not read must not fill our memory: what is sent goes before the next is begun.
                if self._paused and not await self._taken():
                    break
                self._finish()
                if request.content is not EMPTY_PAYLOAD and not request.content.is_eof():
                    alive = await self._drop(request.content) and alive
                # Some time for its next request.
                self._next_keepalive_close_time = loop.time() + KEEP_ALIVE_S
                if self._keepalive_handle is None:
                    self._keepalive_handle = loop.call_at(self._next_keepalive_close_time, self._process_keepalive)
                # An idle connection keeps no body and no answer.
                del request, answer
        except ConnectionError:
            pass
        finally:
            self._finish()
            if self.transport is not None:
                self.transport.close()

    def _take(self) -> Request:
        """Take the next request. The parser goes on where it was paused because they came faster than answers."""
        message, payload = self._messages.popleft()
        if self._parser is not None:
            self._parser.message_consumed()
        if self._buffer_paused and len(self._messages) <= self._msg_queue_resume_size:
            self._resume_reading_if_drained()
        # What the parser refused is no message with a method.
        head: Any = ERROR if type(message) is _ErrInfo else message
        return Request(head.method, head.path, head.headers, payload, not head.should_close, self.transport, head)

    def resume_reading(self, resume_parser: bool = True) -> None:
        """Go on reading. At the end of every body aiohttp asks for it, also where nothing was paused."""
        if resume_parser or self._reading_paused:
            super().resume_reading(resume_parser)

    def _write(self, request: Request, answer: "Answer") -> bool:
        """Write the answer; returns whether the connection goes on after it."""
        # A request to change the protocol is answered like any other, but the parser has stopped at it: of what follows
        # it may have dropped a part, and what it reads then could be the middle of a body.
        last = (self._upgraded and not self._messages) or hdrs.UPGRADE in request.headers
        self._keepalive = alive = request.keep_alive and not (answer.close or self._close or last)
        if (transport := self.transport) is not None:
            transport.write(answer.encode(request, keep_alive=alive))
        return alive

    async def _taken(self) -> bool:
        """Wait until the client has taken most of what was written; one that does not in time is hung up on."""
        try:
            async with asyncio.timeout(TAKE_S):
                await self._drain_helper()
        except TimeoutError:
            if self.transport is not None:
                self.transport.abort()
            return False
        return True

    async def _drop(self, payload: "StreamReader") -> bool:
        """Read and drop what is left of a body that nobody wanted; returns whether that was all of it."""
        with contextlib.suppress(TimeoutError, web.RequestPayloadError, ConnectionError):
            async with asyncio.timeout(LINGER_S):
                while not payload.is_eof():
                    await payload.readany()
        return payload.is_eof()

    def _finish(self) -> None:
        """Nothing is being answered now; a shutdown that waits for that hears it."""
        self._current_request = None
        self._request_in_progress = False
        waiter = self._handler_waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)
