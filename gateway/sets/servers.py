"""A link to every setnode server of the topology, and which of the servers are fit to be called."""

import asyncio
from collections.abc import Callable, Iterator
from functools import partial

from gateway.limits import LINK_DRAIN_S, STEADY_S
from gateway.sets import gauges
from runtime import logs, metrics
from runtime.tls import Tls
from sharding.topology import Topology
from wire.keys import LinkKey
from wire.link import Link
from wire.load import DATABASE
from wire.messages import Op

_log = logs.get("gateway")
_alive = metrics.gauge("hongbao_servers_alive", "Setnode servers fit to be called")


class Server:
    """One server: its link, the task that maintains it, and since when it has been up."""

    def __init__(self, name: str, url: str, link: Link, task: "asyncio.Task[None]") -> None:
        self.name = name
        self.url = url
        self.link = link
        self.task = task
        self.up_since: float | None = None
        self.lost_before = False

    def steady(self, now: float) -> bool:
        """Say whether it is connected and, if it was lost before, has been for STEADY_S."""
        return self.up_since is not None and (not self.lost_before or now - self.up_since >= STEADY_S)


class Servers:
    """Opens and closes links as the topology says.

    `alive` holds the names of the servers that may be called; it is replaced, never changed in place.
    """

    def __init__(self, key: LinkKey, tasks: asyncio.TaskGroup, tls: Tls | None = None) -> None:
        self._key = key
        self._tls = tls
        self._tasks = tasks
        self._servers: dict[str, Server] = {}
        self._leaving: set[asyncio.Task[None]] = set()
        self._hello: list[object] = []
        self._topology: Topology | None = None
        self.on_live: Callable[[Link, int, bytes, str], None] | None = None
        """Hears of changes of watched envelopes (`wire.link.Link.on_live`), and on which link."""
        self.alive: frozenset[str] = frozenset()
        self.lost_at = asyncio.get_running_loop().time()
        """When a server was lost last; at first, the start of this process (loop time)."""

    def follow(self, topology: Topology) -> None:
        """Open links to the servers that are new in `topology`, and close those to servers that are no longer in it.

        A link to be closed is kept for LINK_DRAIN_S, for the answers still to come. Every server receives the epochs of
        `topology` before its next call.
        """
        hello = [Op.EPOCHS, topology.epoch_of]
        if hello != self._hello:
            self._hello = hello
            for server in self._servers.values():
                server.link.notify(hello)
        wanted = {server.name: server.url for one in topology.sets for server in one.servers}
        for name, server in list(self._servers.items()):
            if wanted.get(name) != server.url:
                del self._servers[name]
                self._leaving.add(server.task)
                server.task.add_done_callback(self._leaving.discard)
                asyncio.get_running_loop().call_later(LINK_DRAIN_S, server.task.cancel)
        for name, url in wanted.items():
            if name not in self._servers:
                link = Link(name, url, key=self._key, hello=lambda: self._hello, tls=self._tls)
                link.on_live = partial(self._live, link)
                self._servers[name] = Server(name, url, link, self._tasks.create_task(link.maintain()))
        self._topology = topology
        self.watch(topology)
        gauges.publish(topology, self.alive)

    def watch(self, topology: Topology) -> bool:
        """Check all links and renew `alive`; return whether it changed.

        If no server of a SET is steady, those that are connected are alive. Of these a server whose database does not
        answer it (`wire.load`) is left out, unless it answers no other one either: then it is the database's fault.
        """
        now = asyncio.get_running_loop().time()
        for server in self._servers.values():
            if not server.link.up:
                self._forget_uptime(server)
            elif server.up_since is None:
                server.up_since = now
        return self._set_alive(frozenset(name for one in topology.sets for name in self._fit(one.server_names, now)))

    def link(self, name: str) -> Link:
        """Return the link of a server of the topology."""
        return self._servers[name].link

    def links(self) -> list[Link]:
        """Return the links of all servers of the topology."""
        return [server.link for server in self._servers.values()]

    def mark_lost(self, name: str) -> None:
        """Take a server out of `alive` at once: a call has found it not connected, or stopping."""
        server = self._servers.get(name)
        if server is not None:
            self._forget_uptime(server)
        self._set_alive(self.alive - {name})

    def close(self) -> None:
        """Close all links, also those kept for LINK_DRAIN_S."""
        for task in [*self._leaving, *(server.task for server in self._servers.values())]:
            task.cancel()

    def _live(self, link: Link, envelope_id: int, frame: bytes, version: str) -> None:
        if self.on_live is not None:
            self.on_live(link, envelope_id, frame, version)

    def _set_alive(self, alive: frozenset[str]) -> bool:
        """Take over which servers may be called; log and publish a change, and return whether there was one."""
        if alive == self.alive:
            return False
        if self.alive - alive:
            self.lost_at = asyncio.get_running_loop().time()
        _log.info("servers", alive=sorted(alive), away=sorted(self._servers.keys() - alive))
        self.alive = alive
        _alive.set(len(alive))
        if self._topology is not None:
            gauges.publish(self._topology, alive)
        return True

    def _fit(self, names: tuple[str, ...], now: float) -> Iterator[str]:
        servers = [self._servers[name] for name in names if name in self._servers]
        steady = [server.name for server in servers if server.steady(now)]
        fit = steady or [server.name for server in servers if server.up_since is not None]
        yield from [name for name in fit if not self._servers[name].link.load_s(DATABASE)] or fit

    def _forget_uptime(self, server: Server) -> None:
        if server.up_since is not None:
            server.up_since, server.lost_before = None, True
