"""Step 0 of a request: new connections are accepted, and cost little until a request on them begins.

libuv accepts one connection in a turn of the loop (since 1.45), and asyncio's own loop as many as its backlog. While
many people connect at once and turns are long, the first lets them wait in the kernel's queue until they give up, where
nobody counts them; the second does nothing else for half a second. Here some are accepted in each turn, more in a long
one. A new connection is little more than a socket (`Newcomer`, 15 µs with its end). Only a request that may begin makes
it a `Connection` with its parser, transport and task, some 25 µs more.
"""

import asyncio
import contextlib
import errno
import random
import socket
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple, Self

from errors import Refused
from gateway.admission.line import Refusal
from gateway.admission.priority import Class
from gateway.admission.reason import Reason
from gateway.connection_factory import ConnectionFactory
from gateway.limits import (
    ACCEPTS_PER_S,
    ACCEPTS_PER_TURN,
    DRAIN_LOOK_S,
    DRAIN_SPREAD,
    NEWCOMERS_S,
    NO_FILES_S,
    READ_BYTES,
)
from gateway.newcomers import Newcomer, Newcomers
from runtime import listening, logs
from runtime.http import CLOSE_S

_NO_FILES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

_log = logs.get("gateway")


class Endpoint(NamedTuple):
    """Where to listen. `shared`: other processes listen there, too, and the kernel spreads connections among them."""

    host: str
    port: int
    shared: bool = False


class Acceptor:
    """Listens at endpoints, as an async context; `factory` makes the connections.

    `inherited`: sockets that listen already, and take the place of those at their ports; whoever made them keeps them
    open. `newcomer`: the class of new connections. At the end of the block it stops accepting, and requests in flight
    are answered, within CLOSE_S.
    """

    def __init__(
        self,
        factory: ConnectionFactory,
        *endpoints: Endpoint,
        inherited: Sequence[socket.socket] = (),
        newcomer: type[Newcomer] = Newcomer,
    ) -> None:
        self._newcomer = newcomer
        self._factory = factory
        self._endpoints = endpoints
        self._inherited = list(inherited)
        self._loop = asyncio.get_running_loop()
        self._listening: list[socket.socket] = []
        self._newcomers = Newcomers(self._upgrade)
        self._opening: set[asyncio.Task[None]] = set()
        self._more_since: dict[socket.socket, float] = {}
        """When the last turn accepted, by the socket that it has left some of."""

    async def __aenter__(self) -> Self:
        try:
            for endpoint in self._endpoints:
                host, port, shared = endpoint
                found = listening.take_at(self._inherited, port)
                self._listening += found or await asyncio.to_thread(listening.listen, host, port, shared=shared)
        except Refused:
            self._stop_listening()
            raise
        self._newcomers.start()
        for one in self._listening:
            self._loop.add_reader(one, self._accept, one)
        return self

    @property
    def port(self) -> int:
        """The port bound at the first endpoint; another one than given only if that was 0."""
        return int(self._listening[0].getsockname()[1])

    async def drain(self, seconds: float, at_once: asyncio.Event, *, replaced: bool) -> None:
        """Serve on for `seconds`, but end each connection with an answer; then stop accepting.

        Connections end a few at a time: clients that all come back at once are more work than they were before.

        `replaced`: another process accepts at the same listening sockets, so this one stops at once, and returns as
        soon as no client is left. It also returns when `at_once` is set.
        """
        left, bounds, begun = self._factory.drain(), self._factory.bounds, self._now()
        random.shuffle(left)
        many = len(left)

        def stays() -> bool:
            spread = (self._now() - begun) / (DRAIN_SPREAD * seconds) if seconds else 1.0
            while left and len(left) > many * (1.0 - spread):
                left.pop().retire()
            return bool(len(bounds)) or not replaced

        if replaced:
            self._stop_listening()
        await self._while(stays, seconds, at_once)
        self._stop_listening()
        # Who has just connected is about to ask.
        await self._while(lambda: any(isinstance(one, Newcomer) for one in bounds.all()), NEWCOMERS_S, at_once)

    def _now(self) -> float:
        return self._loop.time()

    async def _while(self, holds: Callable[[], bool], seconds: float, at_once: asyncio.Event) -> None:
        end = self._loop.time() + seconds
        while not at_once.is_set() and self._loop.time() < end and holds():
            await asyncio.sleep(DRAIN_LOOK_S)

    async def __aexit__(self, *_: object) -> None:
        self._stop_listening()
        for one in self._factory.bounds.all():
            if not isinstance(one, Newcomer):
                one.retire()
            elif not one.serving:
                one.hang_up()
        # What stands in line, or has come in this turn, is begun before idle connections are closed.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                while len(self._factory.line):
                    await asyncio.sleep(0)
        self._newcomers.stop()
        for task in list(self._opening):
            await asyncio.wait({task})
        await asyncio.sleep(0)
        self._factory.pre_shutdown()
        await self._factory.shutdown(CLOSE_S)

    def _stop_listening(self) -> None:
        for one in self._listening:
            self._loop.remove_reader(one)
        listening.close_all([*self._listening, *self._inherited])
        self._listening.clear()

    def _accept(self, door: socket.socket) -> None:
        # If the last turn has left some, it may have been a long one: then more are accepted.
        now, many = self._loop.time(), ACCEPTS_PER_TURN
        if (since := self._more_since.pop(door, None)) is not None:
            many = max(many, int((now - since) * ACCEPTS_PER_S))
        for _ in range(many):
            try:
                client, address = door.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _NO_FILES:
                    raise
                _log.error("no connection can be accepted: files or memory are used up", error=str(error))
                self._loop.remove_reader(door)
                self._loop.call_later(NO_FILES_S, self._listen_again, door)
                return
            client.setblocking(False)
            newcomer = self._newcomer(client, str(address[0]), self._factory, self._newcomers)
            if self._factory.bounds.add(newcomer):
                self._newcomers.add(newcomer)
            else:
                self._turn_away(client)
        self._more_since[door] = now

    def _turn_away(self, client: socket.socket) -> None:
        """Answer 503 and close at once: all connections are in use."""
        asked = b""
        with contextlib.suppress(OSError):
            # What is unread at a close makes the kernel reset the connection, and the client may lose the answer.
            asked = client.recv(READ_BYTES)
        self._factory.refusals.next_for(asked)
        with contextlib.suppress(OSError):
            refusal = Refusal(Class.ALWAYS, Reason.CONNECTIONS)
            client.send(self._factory.refusals.make(refusal, last=True))
        client.close()

    def _listen_again(self, door: socket.socket) -> None:
        if door in self._listening:
            self._loop.add_reader(door, self._accept, door)

    def _upgrade(self, newcomer: Newcomer) -> None:
        task = self._loop.create_task(self._open(newcomer))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    async def _open(self, newcomer: Newcomer) -> None:
        # What had to be parsed to be known has not been looked at: it stands in line again, and may be refused.
        admitted = newcomer.bare is not None
        made = partial(self._factory.in_place_of, newcomer, newcomer.data, admitted=admitted)
        try:
            await self._loop.connect_accepted_socket(made, newcomer.client)
        except Exception as error:  # noqa: BLE001 - of this connection alone
            if not isinstance(error, OSError):  # else the client has gone already
                _log.exception("a connection could not be opened")
            self._factory.bounds.remove(newcomer)
            newcomer.client.close()
