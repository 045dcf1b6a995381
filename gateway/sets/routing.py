"""Which server a call for an envelope goes to: by the topology file, and by the servers that are up."""

import asyncio
import contextlib
from pathlib import Path

from errors import Refused, Unavailable
from gateway.limits import ALL_SETS_S, HOLD_LOOK_S, TOPOLOGY_S, WATCH_S
from gateway.sets.servers import Servers
from gateway.sets.target import Target
from published.follower import Follower
from runtime import logs
from runtime.periodic import Periodic
from runtime.tls import Tls
from sharding.topology import Topology, TopologyFile, set_paused
from wire.keys import LinkKey
from wire.link import Link

_log = logs.get("gateway")


class Routing:
    """Finds the link of a target. Any server of its SET gives the right answer; the ring names the one with the actor.

    A link that was found is valid until `generation` rises: with a new topology, or when a server comes or goes.
    """

    def __init__(
        self, topology: Path, key: LinkKey, tasks: asyncio.TaskGroup, wallet_link: Link, tls: Tls | None = None
    ) -> None:
        self._file = TopologyFile(topology)
        self._follower = Follower(topology)
        self._wallet_link = wallet_link
        self._tasks = tasks
        self._asking: asyncio.Task[None] | None = None
        self.servers = Servers(key, tasks, tls)
        self.servers.follow(self._file.current)
        self.generation = 1
        self._began = asyncio.get_running_loop().time()
        self._complete = False
        self._away: tuple[str, ...] = ()
        self._away_of: tuple[Topology | None, frozenset[str]] = (None, frozenset())
        """The topology and the living servers for which `_away` was found."""
        self._read_at = 0.0
        self._changed = asyncio.Event()
        self.services = (
            Periodic("servers", self._watch, interval_s=WATCH_S),
            Periodic("topology", self._reload, interval_s=TOPOLOGY_S),
            Periodic("published", self._ask, interval_s=TOPOLOGY_S),
        )

    @property
    def topology(self) -> Topology:
        """The topology as it is now."""
        return self._file.current

    def find(self, target: Target) -> Link:
        """Look the target's link up, and keep it in the target.

        Raises Unavailable: `being_moved` (its database is between two SETs), `set_paused`, `no_server`.
        """
        topology, envelope_id = self.topology, target.envelope_id
        if topology.held and topology.is_held(envelope_id):
            raise Unavailable("being_moved", "this envelope is on its way to another SET", retry_after_s=0.5)
        home = topology.set_for(envelope_id)
        if home.paused:
            raise set_paused()
        name = topology.server_in(home, envelope_id, self.servers.alive).name
        link = target.link = self.servers.link(name)
        target.generation = self.generation
        return link

    def exclude(self, link: Link) -> None:
        """Send no calls to the server of `link` until `Servers.watch` finds it fit again: it did not take a call."""
        self.servers.mark_lost(link.name)
        self.generation += 1

    def ready(self) -> bool:
        """Say whether any SET can be called: one that is away must not take the gateways of all others out of service.

        For ALL_SETS_S after the start it waits for every SET, unless it has seen all of them: links open one by one.
        """
        away = len(self.sets_away())
        self._complete = self._complete or not away
        started = asyncio.get_running_loop().time() - self._began >= ALL_SETS_S
        return away < len(self.topology.sets) if self._complete or started else False

    def sets_away(self) -> tuple[str, ...]:
        """Return the names of the SETs of which no server can be called.

        They are looked for once for each set of living servers, because any client may ask for `/readyz` at any rate.
        """
        topology, alive = self.topology, self.servers.alive
        if self._away_of[0] is not topology or self._away_of[1] is not alive:
            self._away_of = topology, alive
            self._away = tuple(one.name for one in topology.sets if alive.isdisjoint(one.serving))
        return self._away

    def read_again(self) -> None:
        """Read the topology file, and ask for a newer one, unless it was done less than half of HOLD_LOOK_S ago.

        A bad file is logged.
        """
        now = asyncio.get_running_loop().time()
        if now - self._read_at < HOLD_LOOK_S / 2:
            return
        self._read_at = now
        try:
            self._take_newer()
        except Refused as refusal:
            _log.warning("the topology file cannot be used", error=refusal.detail)
        if self._asking is None or self._asking.done():
            self._asking = self._tasks.create_task(self._ask())

    async def wait_for_change(self, seconds: float) -> None:
        """Wait until a newer topology is taken or a server can be called again, `seconds` at most."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()

    def _take_newer(self) -> None:
        if not self._file.reload():
            return
        _log.info("topology reloaded", version=self.topology.version)
        self.servers.follow(self.topology)
        self.generation += 1
        self._wake()

    def _wake(self) -> None:
        """Let all calls that wait try again."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def _watch(self) -> None:
        before = self.servers.alive
        if self.servers.watch(self.topology):
            self.generation += 1
            # A loss helps nobody who waits.
            if self.servers.alive - before:
                self._wake()

    async def _reload(self) -> None:
        self._take_newer()

    async def _ask(self) -> None:
        """Ask the wallet for what was published: on this host nothing else may write the file.

        No setnode is asked: one that fell into wrong hands could give itself the envelopes of every SET.
        """
        if not self._wallet_link.up:
            return
        try:
            await self._follower.ask(self._wallet_link)
            self._take_newer()
        except Unavailable as away:
            _log.debug("not asked for what is published", error=away.detail)
        except Refused as refusal:
            _log.warning("the topology file cannot be used", error=refusal.detail)
