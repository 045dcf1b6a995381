"""Which client watches which envelope; frames come from the SETs and go out to all who watch."""

import asyncio
import time
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from errors import HongbaoError, Unavailable
from gateway.limits import (
    LIVE_ASKS_AT_ONCE,
    LIVE_LOOK_S,
    LIVE_LOOKS_AT_ONCE,
    LIVE_STREAMS,
    LIVE_STREAMS_OF_USER,
    LIVE_SWEEP_S,
    LIVE_TURN_S,
)
from gateway.live.events import envelope_event
from gateway.live.pace import Pace
from gateway.live.watcher import Watcher
from gateway.sets.calls import Sets
from gateway.sets.target import Target
from runtime import logs, metrics
from runtime.periodic import Periodic
from wire.link import Link
from wire.messages import Op

_log = logs.get("gateway")
_streams = metrics.gauge("hongbao_live_streams", "Clients that watch envelopes")
_events = metrics.counter("hongbao_live_events_total", "Events written to clients")
_NEVER: Final = -1


class Joined(NamedTuple):
    """What the envelope's server has said to one who begins to watch it."""

    envelope_id: int
    token_ok: bool
    event: bytes
    version: str


class _Watched:
    """An envelope that is watched: by whom, who tells of it, and what was told last."""

    __slots__ = ("asking", "envelope_id", "event", "joining", "link", "losses", "next", "rest", "version", "watchers")

    def __init__(self, envelope_id: int) -> None:
        self.envelope_id = envelope_id
        self.watchers: dict[Watcher, None] = {}
        """In the order of their coming."""
        self.joining = 0
        """Those who have asked the server, and have no stream yet."""
        self.asking = 0
        """Calls to servers that are not answered yet; each of these servers may tell of a change before it answers."""
        self.link: Link | None = None
        """Of the server that tells."""
        self.losses = _NEVER
        """How often the link had been lost when the server was asked: it forgets with the connection."""
        self.version = ""
        """The version of `event`: of the event that is being handed out, else of the last one that was."""
        self.event = b""
        self.next: tuple[bytes, str] | None = None
        """The event to hand out after `event`, with its version: the newest that came meanwhile."""
        self.rest: list[Watcher] = []
        """Watchers who have not got `event` yet; empty unless it is being handed out."""


class Hub:
    """All streams of this process; `services` must run."""

    def __init__(self, sets: Sets) -> None:
        self._sets = sets
        self._watched: dict[int, _Watched] = {}
        self._all: dict[Watcher, None] = {}
        self._of_user: dict[str, int] = {}
        self._due: deque[_Watched] = deque()
        """Whose event is being handed out."""
        self._loop = asyncio.get_running_loop()
        self._turning: asyncio.Handle | None = None
        """The next turn of handing out; there is one at most."""
        self._pace = Pace(self._loop.time(), time.process_time)
        sets.routing.servers.on_live = self._told
        self.services = (
            Periodic("live_servers", self._follow, interval_s=LIVE_LOOK_S),
            Periodic("live_streams", self._sweep, interval_s=LIVE_SWEEP_S),
        )

    def __len__(self) -> int:
        """Streams, and envelopes that are watched or asked for."""
        return len(self._all) + len(self._watched) + len(self._of_user)

    def check_room(self, user: str) -> None:
        """Raise Unavailable `busy` or `too_many_streams` if there is no room for one more stream of this user."""
        if self._of_user.get(user, 0) >= LIVE_STREAMS_OF_USER:
            raise Unavailable(
                "too_many_streams",
                f"you have {LIVE_STREAMS_OF_USER} streams; watch several envelopes on one, or end another first",
                retry_after_s=1.0,
            )
        if len(self._all) >= LIVE_STREAMS:
            raise Unavailable("busy", f"{LIVE_STREAMS} clients watch envelopes here; try again shortly")

    async def join(self, envelope_id: int, user: str, *, token_ok: bool) -> Joined:
        """Ask the envelope's server what this user is shown, and to tell of changes from now on.

        Then the caller calls `add` or `abandon`. Raises what `Sets.call` raises; Refused `not_invited` or `not_found`
        if they may not see it: then the server does not tell.
        """
        watched = self._watched.get(envelope_id)
        if watched is None:
            watched = self._watched[envelope_id] = _Watched(envelope_id)
        watched.joining += 1
        try:
            return await self._ask(watched, user, token_ok=token_ok)
        except BaseException:
            self._abandon(envelope_id)
            raise

    def abandon(self, joined: Iterable[Joined]) -> None:
        """Forget joins for which there will be no stream."""
        for one in joined:
            self._abandon(one.envelope_id)

    def add(self, one: Watcher, joined: Sequence[Joined]) -> None:
        """Tell a stream of the envelopes that it has joined; what was told since then takes the place of its first."""
        self._all[one] = None
        self._of_user[one.user] = self._of_user.get(one.user, 0) + 1
        for envelope_id, _, _, version in joined:
            watched = self._watched[envelope_id]
            watched.joining -= 1
            watched.watchers[one] = None
            if _is_newer(watched.version, version):
                one.pending[envelope_id] = watched.event
        _streams.set(len(self._all))

    def remove(self, one: Watcher) -> None:
        """Forget a stream."""
        if one not in self._all:
            return
        del self._all[one]
        left = self._of_user.pop(one.user) - 1
        if left:
            self._of_user[one.user] = left
        for envelope_id in one.envelopes:
            watched = self._watched[envelope_id]
            watched.watchers.pop(one, None)
            self._forget_unwatched(watched)
        _streams.set(len(self._all))

    def last_event(self, envelope_id: int) -> bytes:
        """Return the event told last of an envelope; empty if there is none."""
        watched = self._watched.get(envelope_id)
        return watched.event if watched is not None else b""

    async def _ask(self, watched: _Watched, user: str, *, token_ok: bool) -> Joined:
        # A target of this call's own: afterwards its link is the one that has answered.
        envelope_id, target = watched.envelope_id, Target(watched.envelope_id)
        watched.asking += 1
        try:
            frame, version, *_ = await self._sets.call(target, Op.WATCH, envelope_id, user, token_ok)
        finally:
            watched.asking -= 1
        watched.link = link = target.link
        watched.losses = link.losses if link is not None and link.up else _NEVER
        return Joined(envelope_id, token_ok, envelope_event(envelope_id, frame, version), version)

    def _abandon(self, envelope_id: int) -> None:
        watched = self._watched[envelope_id]
        watched.joining -= 1
        self._forget_unwatched(watched)

    def _forget_unwatched(self, watched: _Watched) -> None:
        """Forget an envelope that nobody watches, and tell its server."""
        if watched.watchers or watched.joining:
            return
        del self._watched[watched.envelope_id]
        if watched.link is not None:
            watched.link.notify([Op.UNWATCH, [watched.envelope_id]])

    def _told(self, link: Link, envelope_id: int, frame: bytes, version: str) -> None:
        """Hand a frame out to all who watch its envelope."""
        watched = self._watched.get(envelope_id)
        if watched is None or (watched.link is not link and watched.link is not None and not watched.asking):
            # Nobody watches it any more, or another server has it now.
            link.notify([Op.UNWATCH, [envelope_id]])
        else:
            self._hand_out(watched, envelope_event(envelope_id, frame, version), version)

    def _hand_out(self, watched: _Watched, event: bytes, version: str) -> None:
        watched.next = event, version
        if not watched.rest:
            self._begin(watched)

    def _begin(self, watched: _Watched) -> None:
        if watched.next is None:
            return
        (watched.event, watched.version), watched.next = watched.next, None
        watched.rest = list(watched.watchers)
        if not watched.rest:
            return
        self._due.append(watched)
        if self._turning is None:
            self._turning = self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        """Write to some streams; LIVE_TURN_S later to more, and everything else is served in between.

        Watchers of a gateway that is busy with other things hear less often, and opens lose little.
        """
        due, began = self._due, self._loop.time()
        left = many = max(1, int(self._pace.share(began) * LIVE_TURN_S / self._pace.write_s))
        try:
            while left > 0 and due:
                watched = due[0]
                # From the end: taking the first of a long list moves all others.
                some = watched.rest[-left:]
                del watched.rest[-left:]
                left -= len(some)
                for one in some:
                    one.send(watched.envelope_id, watched.event)
                if not watched.rest:
                    due.popleft()
                    self._begin(watched)
        finally:
            self._turning = self._loop.call_later(LIVE_TURN_S, self._turn) if due else None
        self._pace.wrote(many - left, self._loop.time() - began)
        _events.inc(many - left)

    async def _follow(self) -> None:
        """Ask the server that has an envelope now, where that is another one, or one that has been away."""
        moved = [one for one in self._watched.values() if one.watchers and not one.asking and not self._is_told(one)]
        for begin in range(0, len(moved), LIVE_ASKS_AT_ONCE):
            await asyncio.gather(*map(self._ask_again, moved[begin : begin + LIVE_ASKS_AT_ONCE]))

    def _is_told(self, watched: _Watched) -> bool:
        link = watched.link
        return link is not None and link.losses == watched.losses and self._routed(watched.envelope_id) is link

    async def _ask_again(self, watched: _Watched) -> None:
        one = next(iter(watched.watchers), None)
        if one is None:
            return
        try:
            joined = await self._ask(watched, one.user, token_ok=one.envelopes[watched.envelope_id])
        except HongbaoError as error:
            # It is tried again at the next look, for another one who watches; streams go on with what they have.
            if one in watched.watchers:
                watched.watchers[one] = watched.watchers.pop(one)
            shown = str(watched.envelope_id)
            _log.debug("an envelope cannot be watched now", envelope_id=shown, error=error.detail)
            return
        if joined.version != watched.version:
            self._hand_out(watched, joined.event, joined.version)

    def _routed(self, envelope_id: int) -> Link | None:
        """Return the link to which a call would go now; None if there is none."""
        try:
            return self._sets.routing.find(Target(envelope_id))
        except Unavailable:
            return None

    async def _sweep(self) -> None:
        """Write beats, and end streams whose time is over."""
        for number, one in enumerate(list(self._all), 1):
            one.look(self._loop.time())
            if not number % LIVE_LOOKS_AT_ONCE:
                await asyncio.sleep(0)


def _is_newer(version: str, other: str) -> bool:
    """Say whether a version (`setnode.views.live_json`) shows more: more is committed, or as much at another time."""
    if not version or version == other:
        return False
    committed, before = version.partition(".")[0], other.partition(".")[0]
    return not (committed.isdigit() and before.isdigit()) or int(committed) >= int(before)
