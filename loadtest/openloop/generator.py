"""Sends requests over a fixed number of connections: open loop by a schedule, or closed loop as answers come."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Self
from urllib.parse import urlsplit

from errors import Unavailable
from loadtest.openloop.connection import Connection

CONNECT_S: Final = 10.0
DRAIN_S: Final = 20.0
"""How long answers are awaited after the last request; the gateway itself gives up earlier."""
_GREETING: Final = b"GET /healthz HTTP/1.1\r\nHost: load\r\n\r\n"
_OK: Final = 200
TICK_S: Final = 0.001
"""Requests due within a millisecond leave together: late, never early, and the delay is part of the latency."""

OnAnswer = Callable[[int, int, bytes, float, float], None]
"""Takes (number of the request, status, body, when it was due, when it was answered); times are `time.perf_counter`."""
OnLost = Callable[[int, str], None]
"""Takes (number of the request, or -1 when none was in flight; why the connection ended)."""


class Generator:
    """`async with`: connected, all of `connections`, to the gateway at `url`. One run at a time."""

    def __init__(self, url: str, connections: int, on_answer: OnAnswer, on_lost: OnLost) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "", parts.port or 80
        self._connections = connections
        self._on_answer = on_answer
        self._on_lost = on_lost
        self._all: set[Connection] = set()
        self._greeted: dict[Connection, asyncio.Future[None]] = {}
        self._idle: deque[Connection] = deque()
        self._waiting: deque[tuple[bytes, int, float]] = deque()
        self._again: set[asyncio.Task[None]] = set()
        self._quiet = asyncio.Event()
        self._next: Iterator[bytes] | None = None
        self._until = 0.0
        self._closing = False
        self.sent = 0
        self.unanswered = 0

    async def __aenter__(self) -> Self:
        """Connect all, until the gateway answers on each; raises Unavailable `gateway_away`."""
        try:
            async with asyncio.timeout(CONNECT_S):
                await asyncio.gather(*(self._connect() for _ in range(self._connections)))
        except (OSError, TimeoutError) as error:
            self._close()
            raise Unavailable("gateway_away", f"cannot connect to {self._host}:{self._port}: {error}") from error
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close all connections."""
        self._close()
        for task in self._again:
            task.cancel()
        await asyncio.gather(*self._again, return_exceptions=True)

    async def open_loop(self, requests: Iterator[bytes], times: Iterable[float]) -> None:
        """Send a request at each of `times` (seconds from now), then wait up to DRAIN_S for the last answers.

        Requests that find no free connection wait in order; their latency counts from when they were due.
        """
        began = time.perf_counter()
        for at in times:
            due = began + at
            while (early := due - time.perf_counter()) > 0:
                await asyncio.sleep(max(early, TICK_S))
            request = next(requests, None)
            if request is None:
                break
            self._dispatch(request, due)
        await self._drain()

    async def closed_loop(self, requests: Iterator[bytes], seconds: float) -> None:
        """Keep every connection busy for so long or until `requests` ends: what the server carries at most."""
        self._next, self._until = requests, time.perf_counter() + seconds
        for _ in range(len(self._idle)):
            self._refill(self._idle.popleft())
        while self.unanswered and time.perf_counter() < self._until:
            self._quiet.clear()
            await self._wait(self._until - time.perf_counter())
        self._next = None
        await self._drain()

    def answered(self, connection: Connection, status: int, body: bytes) -> None:
        """Hand an answer on and use the connection again (called by it)."""
        number, connection.number = connection.number, -1
        now = time.perf_counter()
        if number < 0:
            greeted = self._greeted.get(connection)
            if greeted is None or greeted.done() or status != _OK:
                connection.close()
            else:
                greeted.set_result(None)
            return
        self._settle()
        self._on_answer(number, status, body, connection.due, now)
        if self._waiting:
            connection.send(*self._waiting.popleft())
        else:
            self._refill(connection)

    def lost(self, connection: Connection, reason: str) -> None:
        """Count what was in flight and connect again (called by the connection)."""
        self._all.discard(connection)
        if (greeted := self._greeted.pop(connection, None)) is not None:
            if not greeted.done():
                greeted.set_exception(ConnectionError(reason))
            return
        if self._closing:
            return
        if connection.number >= 0:
            self._settle()
        else:
            self._idle = deque(one for one in self._idle if one is not connection)
        self._on_lost(connection.number, reason)
        task = asyncio.ensure_future(self._reconnect())
        self._again.add(task)
        task.add_done_callback(self._again.discard)

    def _dispatch(self, request: bytes, due: float) -> None:
        number = self.sent
        self.sent += 1
        self.unanswered += 1
        if self._idle:
            self._idle.popleft().send(request, number, due)
        else:
            self._waiting.append((request, number, due))

    def _refill(self, connection: Connection) -> None:
        self._idle.append(connection)
        if self._next is not None and (now := time.perf_counter()) < self._until:
            request = next(self._next, None)
            if request is not None:
                self._dispatch(request, now)

    def _settle(self) -> None:
        self.unanswered -= 1
        if self.unanswered == 0:
            self._quiet.set()

    async def _drain(self) -> None:
        until = time.perf_counter() + DRAIN_S
        while self.unanswered and time.perf_counter() < until:
            self._quiet.clear()
            await self._wait(until - time.perf_counter())

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._quiet.wait()
        except TimeoutError:
            return

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(lambda: Connection(self), self._host, self._port)
        self._all.add(connection)
        await self._greet(connection)
        if self._waiting:
            connection.send(*self._waiting.popleft())
        else:
            self._refill(connection)

    async def _greet(self, connection: Connection) -> None:
        """Wait until the gateway answers: the kernel connects before the gateway has accepted.

        A request sent at once would wait until the last of hundreds of connections is accepted.
        """
        greeted = self._greeted[connection] = asyncio.get_running_loop().create_future()
        connection.send(_GREETING, -1, 0.0)
        try:
            await greeted
        except BaseException:
            connection.close()
            raise
        if self._greeted.pop(connection, None) is None:
            raise ConnectionError("the gateway closed the connection")

    async def _reconnect(self) -> None:
        try:
            async with asyncio.timeout(CONNECT_S):
                await self._connect()
        except (OSError, TimeoutError) as error:
            self._on_lost(-1, f"a connection could not be made again: {error}")

    def _close(self) -> None:
        self._closing = True
        for connection in tuple(self._all):
            connection.close()
