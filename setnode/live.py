"""Tells gateways of changes of the envelopes that they watch: some times a second, what has been committed since.

Nothing is told by an open: a round compares the version of each watched envelope with the one that was told last. So
an envelope that nobody watches costs nothing, a thousand opens of a hot one are one frame, and nothing is told before
its commit. A frame is encoded once for all gateways.
"""

from typing import Any

from errors import Unavailable
from runtime import logs, metrics
from runtime.periodic import Periodic
from setnode.actors.registry import Registry
from setnode.actors.request import Action, LocalCaller, ReplyTo, Request
from setnode.limits import LIVE_S, WATCHED
from wire.server import Caller

_log = logs.get("setnode")
_watched = metrics.gauge("hongbao_watched_envelopes", "Envelopes of which gateways want to hear")
_frames = metrics.counter("hongbao_live_frames_total", "Changes of watched envelopes that were told")


class _Told:
    """An envelope that is watched: by whom, and what they were told last."""

    __slots__ = ("behind", "callers", "claimed_count", "opens_at_ms", "sender", "version")

    def __init__(self) -> None:
        self.callers: set[Caller] = set()
        self.behind: set[Caller] = set()
        """Those among them that did not read, and missed a frame: they are told all of it once they do."""
        self.version = ""
        self.claimed_count = 0
        self.opens_at_ms: int | None = None
        """When an envelope that is scheduled opens: that is told though its log is no longer in memory then."""
        self.sender = ""


class _Asks:
    """Passes the answer to a WATCH on, and begins to tell with it (`setnode.actors.request.ReplyTo`)."""

    __slots__ = ("_caller", "_envelope_id", "_watches", "name")

    def __init__(self, watches: "Watches", caller: Caller, envelope_id: int) -> None:
        self._watches, self._caller, self._envelope_id = watches, caller, envelope_id
        self.name = caller.name

    def reply(self, number: int, *values: Any) -> None:
        """Pass what is shown on; nothing that is committed later is missed."""
        if self._watches.add(self._caller, self._envelope_id):
            self._caller.reply(number, *values)
        else:
            self._caller.fail(number, _too_many())

    def fail(self, number: int, error: BaseException) -> None:
        """Pass a refusal on."""
        self._caller.fail(number, error)


class Watches:
    """The envelopes that gateways watch: `asks` begins one, `service` tells of all of them."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._told: dict[int, _Told] = {}

    def asks(self, caller: Caller, envelope_id: int) -> ReplyTo:
        """Return whom the answer to a WATCH goes to: `caller`, who is told from then on if it shows the envelope.

        Who may not see it, or asks for one that is not there, is not told. Raises Unavailable `busy` if the caller
        watches WATCHED already.
        """
        if envelope_id not in caller.watched and len(caller.watched) >= WATCHED:
            raise _too_many()
        return _Asks(self, caller, envelope_id)

    def add(self, caller: Caller, envelope_id: int) -> bool:
        """Tell `caller` of the envelope from now on; False if it watches WATCHED already."""
        watched = caller.watched
        if envelope_id not in watched:
            if len(watched) >= WATCHED:
                return False
            watched.add(envelope_id)
        told = self._told.get(envelope_id)
        if told is None:
            told = self._told[envelope_id] = _Told()
            actor = self._registry.peek(envelope_id)
            if actor is not None and (now := actor.live("", 0)) is not None:
                # What the answer to WATCH shows.
                told.version, told.claimed_count = now.version, now.claimed_count
            if actor is not None and actor.log is not None:
                terms = actor.log.terms
                told.opens_at_ms, told.sender = terms.opens_at_ms, terms.sender
        told.callers.add(caller)
        return True

    def service(self) -> Periodic:
        """Return what tells every LIVE_S."""
        return Periodic("live", self._round, interval_s=LIVE_S)

    async def _round(self) -> None:
        self.tell()

    def tell(self) -> None:
        """Tell each caller of the envelopes that have changed, and forget those that nobody watches."""
        nobody = []
        for envelope_id, told in self._told.items():
            told.callers = callers = {one for one in told.callers if not one.gone and envelope_id in one.watched}
            if not callers:
                nobody.append(envelope_id)
            else:
                try:
                    self._tell(envelope_id, told)
                except Exception:  # noqa: BLE001 - of this envelope alone: the others are told
                    _log.exception("an envelope cannot be shown to those who watch it", envelope_id=str(envelope_id))
        for envelope_id in nobody:
            del self._told[envelope_id]
        _watched.set(len(self._told))

    def _tell(self, envelope_id: int, told: _Told) -> None:
        actor = self._registry.peek(envelope_id)
        opens = told.opens_at_ms is not None and told.opens_at_ms <= self._registry.now_ms()
        if opens:
            told.opens_at_ms = None
        if actor is None:
            if opens:
                self._read_again(envelope_id, told.sender)
            return
        if told.behind:
            told.behind &= told.callers
            whole = actor.live("", 0)
            if whole is not None:
                told.behind = {one for one in told.behind if not one.tell_live(envelope_id, whole.json, whole.version)}
        frame = actor.live(told.version, told.claimed_count)
        if frame is not None:
            told.version, told.claimed_count = frame.version, frame.claimed_count
            for one in told.callers:
                if not one.tell_live(envelope_id, frame.json, frame.version):
                    told.behind.add(one)
            _frames.inc()

    def _read_again(self, envelope_id: int, sender: str) -> None:
        """Have the log read, as a look of its sender does: what it shows is told in the next round."""
        request = Request(Action.DETAIL, sender, True, None, LocalCaller(), 0, self._registry.loop_time())
        self._registry.offer(envelope_id, request)


def _too_many() -> Unavailable:
    return Unavailable("busy", "this gateway watches too many envelopes; try again later")
