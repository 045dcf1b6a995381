"""The SETs as the handlers see them: a call for an envelope goes to the server that has its actor."""

import asyncio
from pathlib import Path
from typing import Any, Final

from envelope.errors import Unavailable
from gateway.limits import ROUTE_CACHE, TOPOLOGY_S, WATCH_S
from gateway.servers import Servers
from runtime import logs
from runtime.periodic import Periodic
from sharding.topology import Topology, TopologyFile
from wire.link import Link
from wire.messages import Op

_NOT_TAKEN: Final = frozenset({"peer_down", "stopping"})
"""Refusals of a call that nobody has begun: the next server of the ring may have it."""

_log = logs.get("gateway")


class Sets:
    """Finds SET and server of an envelope and calls it. Any server of a SET would be right; one is fast."""

    def __init__(self, topology: Path, key: str, tasks: asyncio.TaskGroup) -> None:
        self._file = TopologyFile(topology)
        self._servers = Servers(key, tasks)
        self._servers.follow(self._file.current)
        self._found: dict[int, Link] = {}
        self.services = (
            Periodic("servers", self._watch, interval_s=WATCH_S),
            Periodic("topology", self._reload, interval_s=TOPOLOGY_S),
        )

    @property
    def topology(self) -> Topology:
        """The topology as it is now."""
        return self._file.current

    async def call(self, envelope_id: int, op: Op, *args: Any) -> list[Any]:
        """Return the reply values of `op`. Errors are those of `Link.call`, what the SET raises, and `no_server`.

        A call that was not taken is sent once more, to the server that follows on the ring. One whose outcome is
        unknown is not: the client repeats it, and hears the truth.
        """
        link = self._found.get(envelope_id) or self._find(envelope_id)
        try:
            return await link.call(op, *args)
        except Unavailable as error:
            if error.code not in _NOT_TAKEN or not error.outcome_known:
                raise
        self._servers.lost(link.name)
        self._found.clear()
        return await self._find(envelope_id).call(op, *args)

    def ready(self) -> bool:
        """Say whether every SET has a server that can be called."""
        alive = self._servers.alive
        return all(not alive.isdisjoint(one.server_names) for one in self.topology.sets)

    def close(self) -> None:
        """Let go of all links."""
        self._servers.close()

    def _find(self, envelope_id: int) -> Link:
        name = self.topology.server_for(envelope_id, self._servers.alive).name
        if len(self._found) >= ROUTE_CACHE:
            self._found.clear()
        link = self._found[envelope_id] = self._servers.link(name)
        return link

    async def _watch(self) -> None:
        if self._servers.watch(self.topology):
            self._found.clear()

    async def _reload(self) -> None:
        if self._file.reload():
            _log.info("topology reloaded", version=self.topology.version)
            self._servers.follow(self.topology)
            self._found.clear()
