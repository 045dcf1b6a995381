"""Step 5 of a request: the call to the SET that holds the envelope, and what is done when a server refuses it."""

import asyncio
from pathlib import Path
from typing import Any, Final

from errors import Unavailable
from gateway.admission.levels import Levels
from gateway.limits import HELD, HOLD_LOOK_S, HOLD_PAUSE_S, HOLD_S
from gateway.sets.routing import Routing
from gateway.sets.target import Target
from runtime import metrics
from runtime.tls import Tls
from sharding.topology import Topology
from wire.keys import LinkKey
from wire.link import Link, NotSent
from wire.messages import STOPPING, Op
from wire.wallet import WALLET_UNAVAILABLE

_ELSEWHERE: Final = frozenset({"wrong_set", "being_moved", "topology_outdated"})
"""Refusals of a server that uses another topology, or whose database is moving to another SET. The gateway holds such a
call and sends it again, even if its outcome is unknown: all calls are idempotent, a create by its key."""

_RESTARTS: Final = frozenset({"peer_down", STOPPING, "no_server"})
"""Refusals of a SET none of whose servers can be called."""

_holding = metrics.gauge(
    "hongbao_requests_held", "Requests that wait: their database moves, or what they need restarts"
)
_held_for = metrics.seconds("hongbao_held_seconds", "How long requests waited for a move, or for a part that restarted")


class Sets:
    """Calls the SETs. Owns the links to their servers, by way of `routing`; run `services` and `close` at the end."""

    def __init__(
        self,
        topology: Path,
        key: LinkKey,
        tasks: asyncio.TaskGroup,
        levels: Levels,
        wallet_link: Link,
        away_s: float,
        tls: Tls | None = None,
    ) -> None:
        """`away_s`: how long a part that has gone is waited for."""
        self._wallet_link = wallet_link
        self._away_s = away_s
        self.routing = Routing(topology, key, tasks, wallet_link, tls)
        self.services = self.routing.services
        self._tasks = tasks
        self._levels = levels
        self._held = 0
        self._rereading: asyncio.Task[None] | None = None

    @property
    def topology(self) -> Topology:
        """The topology as it is now."""
        return self.routing.topology

    async def call(self, target: Target, op: int, *args: Any) -> list[Any]:
        """Return the reply values of `op`. Raises what `Link.send`, the SET and `Routing.find` raise.

        A call that the server has not begun is sent once more, to the next server of the ring. A call whose outcome is
        unknown is not: the client must repeat it and then receives the outcome. While a database changes its SET, its
        calls are held until there is a new topology, HOLD_S at most; then they are refused as `busy`. Calls to a SET
        whose servers have just gone, and creates while the wallet has, are held, too: who restarts is back soon.
        """
        routing = self.routing
        link: Link | None = None
        try:
            link = target.link if target.generation == routing.generation else None
            link = link or routing.find(target)
            if self._levels.limited:
                asked = self._levels.admit(link, op, args[0] if op == Op.CREATE else args[1])
                values = await link.send([0, op, *args])
                self._levels.done(asked)
                return values
            return await link.send([0, op, *args])
        except Unavailable as error:
            first = error
            first.envelope_id = target.envelope_id
        if self.exclude_refusing(first, link):
            try:
                return await routing.find(target).send([0, op, *args])
            except Unavailable as second:
                first = second
        if not self._may_hold(first):
            raise first
        return await self._hold(first, target, op, args)

    def ready(self) -> bool:
        """Say whether a SET can be called; see `Routing.ready`."""
        return self.routing.ready()

    def away(self) -> int:
        """Return how many SETs have no server that can be called."""
        return len(self.routing.sets_away())

    def close(self) -> None:
        """Close all links."""
        if self._rereading is not None:
            self._rereading.cancel()
        self.routing.servers.close()

    def exclude_refusing(self, error: Unavailable, link: Link | None) -> bool:
        """Exclude the server if it has not begun the call; return whether the call may go to the next server.

        Only our own link says so (NotSent), or a server that is stopping: a server that reports another part as away
        is itself well.
        """
        not_begun = isinstance(error, NotSent) or (error.code == STOPPING and error.outcome_known)
        if link is None or not not_begun:
            return False
        self.routing.exclude(link)
        return True

    def _may_hold(self, error: Unavailable) -> bool:
        """Say whether a refused call may soon succeed: what it needs is moving, or has just gone."""
        if error.code in _ELSEWHERE:
            return True
        if not error.outcome_known:
            return False
        now = asyncio.get_running_loop().time()
        if error.code in _RESTARTS:
            return now - self.routing.servers.lost_at < self._away_s
        # A setnode that says so may find the wallet later than we do.
        return error.code == WALLET_UNAVAILABLE and now - self._wallet_link.lost_at < 2 * self._away_s

    async def _hold(self, error: Unavailable, target: Target, op: int, args: tuple[Any, ...]) -> list[Any]:
        """Send a call again when the gateway has a newer topology or a server is back, and after pauses."""
        if self._held >= HELD:
            raise _busy(outcome_known=error.outcome_known) if error.code in _ELSEWHERE else error
        loop = asyncio.get_running_loop()
        began, pause_s, outcome_known = loop.time(), HOLD_LOOK_S, error.outcome_known
        self._count_held(1)
        try:
            while True:
                self.routing.read_again()
                link: Link | None = None
                try:
                    link = self.routing.find(target)
                    return await link.send([0, op, *args])
                except Unavailable as again:
                    error = again
                    error.envelope_id = target.envelope_id
                    may_repeat = self.exclude_refusing(again, link) or self._may_hold(again)
                    # Once unknown, the outcome stays unknown: a later refusal says nothing about the first attempt.
                    again.outcome_known = outcome_known = outcome_known and again.outcome_known
                    if not may_repeat:
                        raise
                most_s = HOLD_S if error.code in _ELSEWHERE else self._away_s
                left_s = began + most_s - loop.time()
                if left_s <= 0:
                    raise _busy(outcome_known=outcome_known) if error.code in _ELSEWHERE else error
                # Three cases. A server that stops still has its link: waiting for a change of links would end at once,
                # so the call pauses. Our own topology says that the database is between two SETs: only a newer one can
                # help. Otherwise a server refused, which may have the newer topology before we do, or a part is away:
                # the call is sent again once a link or the topology changes, or after a pause.
                if error.code == STOPPING:
                    await asyncio.sleep(min(pause_s, left_s))
                else:
                    moving = link is None and error.code in _ELSEWHERE
                    await self.routing.wait_for_change(left_s if moving else min(pause_s, left_s))
                pause_s = min(2 * pause_s, HOLD_PAUSE_S)
        finally:
            self._count_held(-1)
            _held_for.observe(loop.time() - began)

    def _count_held(self, more: int) -> None:
        self._held += more
        _holding.set(self._held)
        if self._rereading is None and self._held:
            self._rereading = self._tasks.create_task(self._reread_while_held())

    async def _reread_while_held(self) -> None:
        """Read the topology file every HOLD_LOOK_S while any call is held: one reader for all of them."""
        while self._held:
            self.routing.read_again()
            await asyncio.sleep(HOLD_LOOK_S)
        self._rereading = None


def _busy(*, outcome_known: bool) -> Unavailable:
    return Unavailable("busy", "this envelope is being moved; try again in a moment", outcome_known=outcome_known)
