"""Connections on which no request has begun yet: bare sockets, read all together.

One `epoll` of our own holds them, and the loop watches that: a newcomer needs no handle of the loop, and while many
speak at once one function reads them in a row. With a reader of the loop for each a gateway served less
(docs/decisions/0036-a-short-line-at-the-door.md).
"""

import asyncio
import select
import socket
from collections.abc import Callable
from typing import Final

from gateway.admission.bare import Bare, look
from gateway.admission.line import Asked, Refusal, read_timeout
from gateway.admission.priority import Class
from gateway.connection_factory import ConnectionFactory
from gateway.limits import KEEP_ALIVE_S, NEWCOMERS_AT_ONCE, READ_BYTES
from runtime import logs

_log = logs.get("gateway")


class Newcomer:
    """A connection on which no request has begun yet: it may stand in line like a `Connection`, and be refused.

    It is counted like one, too (`gateway.connection_bounds.Held`).
    """

    __slots__ = (
        "_among",
        "_begun",
        "_factory",
        "address",
        "arrived_at",
        "asked",
        "bare",
        "began",
        "began_at",
        "client",
        "data",
        "idle_since",
        "in_line",
        "left",
    )

    def __init__(self, client: socket.socket, address: str, factory: ConnectionFactory, among: "Newcomers") -> None:
        self.client = client
        self._factory = factory
        self._among = among
        self.data = b""
        self.bare: Bare | None = None
        self.address = address
        self.asked = self.began = self.in_line = self.left = self._begun = False
        self.began_at: float | None = None
        self.arrived_at = 0.0
        self.idle_since = among.now()

    kept_s: Final = KEEP_ALIVE_S
    """Idle for longer it is ended, as a `Connection` is by its own timer."""

    @property
    def serving(self) -> bool:
        """Whether a request waits, or begins."""
        return self.in_line or self._begun

    def asked_for(self) -> Asked:
        """Return what the request is; one that must be parsed to be known is not refused here."""
        bare = self.bare
        if bare is None:
            return Asked(Class.ALWAYS, b"")
        kind = self._factory.line.promises.class_of(bare.method, bare.path, bare.asker)
        return Asked(kind, bare.asker)

    def timeout_s(self) -> float:
        """Return how long the client waits for the answer."""
        return read_timeout(self.bare.timeout_ms if self.bare else None, self._factory.line.waits_s)

    def readable(self) -> None:
        """Read, and stand in line with what has come."""
        try:
            data = self.client.recv(READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            self.end()
        elif self.in_line:
            self.data += data
            if len(self.data) > READ_BYTES:
                # It is read on by its parser, once its turn has come.
                self._among.leave_unread(self)
        else:
            self.data, self.bare = data, look(data)
            if (refusal := self._factory.line.join(self)) is not None:
                self.refuse(refusal)

    def begin(self) -> None:
        """Hand the socket and what has come over to a `Connection`."""
        self._begun = True
        self._among.upgrade(self)

    def refuse(self, refusal: Refusal) -> None:
        """Answer the request with 503 `busy`."""
        bare = self.bare
        if bare is None or len(self.data) != bare.size:
            # It must be parsed to be refused, or more has come behind it: a `Connection` refuses what it must.
            self.bare = None
            self.begin()
            return
        last = self._factory.draining
        answer = self._factory.refusals.make(refusal, last=last)
        self.data, self.asked, self.idle_since = b"", True, self._among.now()
        try:
            sent = self.client.send(answer)
        except OSError:
            sent = 0
        if last or sent != len(answer):
            self.end()  # as the answer says; or a client that does not read what it asked for, or has gone

    def retire(self) -> None:
        """Do nothing: while a gateway drains, its first answer is its last (`ConnectionFactory.draining`)."""

    def hang_up(self) -> None:
        """End it at once."""
        self.left = True
        self._among.close(self)

    def end(self) -> None:
        """End it at once, and count it no more."""
        self._factory.bounds.remove(self)
        self.hang_up()


class Newcomers:
    """All newcomers; `upgrade` makes one a `Connection`, and takes its socket over."""

    def __init__(self, upgrade: Callable[[Newcomer], None]) -> None:
        self._upgrade = upgrade
        self._loop = asyncio.get_running_loop()
        self.now = self._loop.time
        self._poll = select.epoll()
        self._by_file: dict[int, Newcomer] = {}

    def start(self) -> None:
        """Read what they send."""
        self._loop.add_reader(self._poll.fileno(), self._readable)

    def stop(self) -> None:
        """Read nobody any more; who stands in line may still begin."""
        self._loop.remove_reader(self._poll.fileno())
        self._by_file.clear()
        self._poll.close()

    def add(self, newcomer: Newcomer) -> None:
        """Read what it sends."""
        file = newcomer.client.fileno()
        self._by_file[file] = newcomer
        self._poll.register(file, select.EPOLLIN)

    def leave_unread(self, newcomer: Newcomer) -> None:
        """Leave what it sends in its socket."""
        if self._by_file.pop(newcomer.client.fileno(), None) is not None:
            self._poll.unregister(newcomer.client)

    def upgrade(self, newcomer: Newcomer) -> None:
        """Let it be a `Connection`."""
        self.leave_unread(newcomer)
        self._upgrade(newcomer)

    def close(self, newcomer: Newcomer) -> None:
        """Close its socket."""
        self.leave_unread(newcomer)
        newcomer.client.close()

    def _readable(self) -> None:
        find = self._by_file.get
        for file, _ in self._poll.poll(0, NEWCOMERS_AT_ONCE):
            # One that has gone meanwhile is not found.
            if (newcomer := find(file)) is not None:
                try:
                    newcomer.readable()
                except Exception:  # noqa: BLE001 - of this connection alone: those behind it must be read
                    _log.exception("a new connection failed and is ended")
                    newcomer.end()
