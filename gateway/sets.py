"""The SETs as the handlers see them: a call for an envelope goes to the server that has its actor."""

import asyncio
import contextlib
from pathlib import Path
from typing import Any, Final

from envelope.errors import Refused, Unavailable
from gateway.limits import HELD, HOLD_LOOK_S, HOLD_S, ROUTE_CACHE, TOPOLOGY_S, WATCH_S
from gateway.servers import Servers
from runtime import logs, metrics
from runtime.periodic import Periodic
from sharding.slots import MAX_SLOTS
from sharding.topology import Topology, TopologyFile, set_paused
from wire.link import Link

_NOT_TAKEN: Final = frozenset({"peer_down", "stopping"})
"""Refusals of a call that nobody has begun: the next server of the ring may have it."""
_ELSEWHERE: Final = frozenset({"wrong_set", "being_moved", "topology_outdated"})
"""Refusals of a server that goes by another topology, or whose database is on its way to another SET. All calls may be
repeated, a create that has paid in by its key; so these are, also where the outcome is not known."""

_log = logs.get("gateway")
_holding = metrics.gauge("hongbao_requests_held", "Requests that wait because their database changes its SET")
_held_for = metrics.seconds("hongbao_held_seconds", "How long requests waited because their database changed its SET")


class Sets:
    """Finds SET and server of an envelope and calls it. Any server of a SET would be right; one is fast."""

    def __init__(self, topology: Path, key: str, tasks: asyncio.TaskGroup) -> None:
        self._file = TopologyFile(topology)
        self._servers = Servers(key, tasks)
        self._servers.follow(self._file.current)
        self._found: dict[int, Link] = {}
        """By envelope ID, or by slot (three digits, where an ID has 19) where the slot alone decides."""
        self._tasks = tasks
        self._held = 0
        self._looking: asyncio.Task[None] | None = None
        self._looked_at = 0.0
        self._newer = asyncio.Event()
        self.services = (
            Periodic("servers", self._watch, interval_s=WATCH_S),
            Periodic("topology", self._reload, interval_s=TOPOLOGY_S),
        )

    @property
    def topology(self) -> Topology:
        """The topology as it is now."""
        return self._file.current

    async def call(self, envelope_id: int, op: int, *args: Any) -> list[Any]:
        """Return the reply values of `op`. Errors are those of `Link.ask`, what the SET raises, and `no_server`.

        A call that was not taken is sent once more, to the server that follows on the ring. One whose outcome is
        unknown is not: the client repeats it, and hears the truth. While a database changes its SET calls wait, for
        HOLD_S at most, until the topology says where; then they are `busy`.
        """
        link: Link | None = None
        try:
            found = self._found.get
            link = found(envelope_id % MAX_SLOTS) or found(envelope_id) or self._find(envelope_id)
            return await link.ask([0, op, *args])
        except Unavailable as error:
            first = error
        if first.code in _ELSEWHERE:
            return await self._hold(first, envelope_id, op, args)
        if not self._next_may(first, link):
            raise first
        return await self._find(envelope_id).ask([0, op, *args])

    def ready(self) -> bool:
        """Say whether every SET has a server that can be called."""
        alive = self._servers.alive
        return all(not alive.isdisjoint(one.serving) for one in self.topology.sets)

    def close(self) -> None:
        """Let go of all links."""
        if self._looking is not None:
            self._looking.cancel()
        self._servers.close()

    def _find(self, envelope_id: int) -> Link:
        topology = self.topology
        if topology.held and topology.is_held(envelope_id):
            raise Unavailable("being_moved", "this envelope is on its way to another SET", retry_after_s=0.5)
        home = topology.set_for(envelope_id)
        if home.paused:
            raise set_paused()
        name = topology.server_in(home, envelope_id, self._servers.alive).name
        if len(self._found) >= ROUTE_CACHE:
            self._found.clear()
        # Where a slot has never moved and its SET has one server, all of its envelopes go there: also new ones.
        alone = len(home.serving) == 1 and topology.is_settled(envelope_id)
        link = self._found[envelope_id % MAX_SLOTS if alone else envelope_id] = self._servers.link(name)
        return link

    def _next_may(self, error: Unavailable, link: Link | None) -> bool:
        """Say whether the next server of the ring may have a call that this one did not take; it is left then."""
        if link is None or error.code not in _NOT_TAKEN or not error.outcome_known:
            return False
        self._servers.lost(link.name)
        self._found.clear()
        return True

    async def _hold(self, error: Unavailable, envelope_id: int, op: int, args: tuple[Any, ...]) -> list[Any]:
        """Send a call again as soon as the topology has changed, or has had time to reach the server that refused."""
        if self._held >= HELD:
            raise _busy(known=error.outcome_known)
        loop = asyncio.get_running_loop()
        began, pause_s, known = loop.time(), HOLD_LOOK_S, error.outcome_known
        self._count_held(1)
        try:
            while True:
                self._look_again()
                link: Link | None = None
                try:
                    link = self._find(envelope_id)
                    return await link.ask([0, op, *args])
                except Unavailable as again:
                    if again.code not in _ELSEWHERE and not self._next_may(again, link):
                        raise
                    # What was written before it was refused stays written, whatever is said since.
                    known = known and again.outcome_known
                left_s = began + HOLD_S - loop.time()
                if left_s <= 0:
                    raise _busy(known=known)
                # Held by our own file, only a newer one can tell; refused by a server, it may know better in a moment.
                await self._wait_for_newer(left_s if link is None else min(pause_s, left_s))
                pause_s *= 2
        finally:
            self._count_held(-1)
            _held_for.observe(loop.time() - began)

    def _count_held(self, more: int) -> None:
        self._held += more
        _holding.set(self._held)
        if self._looking is None and self._held:
            self._looking = self._tasks.create_task(self._look_while_held())

    async def _look_while_held(self) -> None:
        """Read the topology file for all that wait, often, as long as any does."""
        while self._held:
            self._look_again()
            await asyncio.sleep(HOLD_LOOK_S)
        self._looking = None

    async def _wait_for_newer(self, seconds: float) -> None:
        """Wait until a newer topology was taken in, `seconds` at most."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._newer.wait()

    def _look_again(self) -> None:
        """Read the topology file, unless somebody has just done so."""
        now = asyncio.get_running_loop().time()
        if now - self._looked_at >= HOLD_LOOK_S / 2:
            self._looked_at = now
            try:
                self._take_newer()
            except Refused as refusal:
                _log.warning("the topology file cannot be used", error=refusal.detail)

    def _take_newer(self) -> None:
        if not self._file.reload():
            return
        _log.info("topology reloaded", version=self.topology.version)
        self._servers.follow(self.topology)
        self._found.clear()
        self._newer.set()
        self._newer = asyncio.Event()

    async def _watch(self) -> None:
        if self._servers.watch(self.topology):
            self._found.clear()

    async def _reload(self) -> None:
        self._take_newer()


def _busy(*, known: bool) -> Unavailable:
    return Unavailable("busy", "this envelope is being moved; try again in a moment", outcome_known=known)
