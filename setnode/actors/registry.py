"""All actors of this server: finds the one of an envelope, wakes it, lets idle ones sleep.

Memory is bounded by shares, not by envelopes. Passivation is CLOCK (second chance): an idle actor that was not
touched since the hand last passed is forgotten; Postgres knows everything it knew. Nothing counts as touched before
somebody asks for it, so that a flood of new envelopes goes before those that are being opened.
"""

from collections import OrderedDict
from collections.abc import Callable

from envelope.claim_log import ClaimLog
from envelope.errors import InvariantBroken
from envelope.outcomes import Outcome
from runtime import logs, metrics
from runtime.clock import Clock
from setnode.actors.actor import Actor
from setnode.actors.request import Request
from setnode.actors.stage import FOREIGN
from setnode.limits import ENVELOPE_WEIGHT, LIVE_SHARES

_log = logs.get("setnode")
_live = metrics.gauge("hongbao_actors_live", "Envelopes in memory")
_passivated = metrics.counter("hongbao_actors_passivated_total", "Envelopes put to sleep to bound memory")
_opens = metrics.counter("hongbao_opens_total", "Answers to grab and open by result", ("result",))
_broken = metrics.counter("hongbao_invariants_broken_total", "Envelopes frozen because their money did not add up")
_BY_RESULT = [_opens.labels(outcome.value) for outcome in Outcome]
_SWEEP_PER_ARRIVAL = 2


class Registry:
    """Maps envelope ID → actor. It is also the stage its actors stand on."""

    def __init__(
        self,
        clock: Clock,
        *,
        loop_time: Callable[[], float],
        want_commit: Callable[[Actor], None],
        call_hot: Callable[[Actor], None],
        want_load: Callable[[Actor], None],
        owns: Callable[[int], bool] = lambda _: True,
        live_shares: int = LIVE_SHARES,
    ) -> None:
        self._live_shares = live_shares
        # A plain dict whose first entries go again and again is walked past all the gaps each time: an arrival at the
        # bound of memory cost 150 to 300 us instead of 7.
        self._actors: OrderedDict[int, Actor] = OrderedDict()
        self._weights: dict[int, int] = {}
        self._weight = 0
        self.tally = [0] * len(Outcome)
        self.waiting = 0
        self.now_ms = clock.now_ms
        self.loop_time = loop_time
        self.want_commit = want_commit
        self.call_hot = call_hot
        self.want_load = want_load
        self.generation = 0
        self._owns = owns

    def __len__(self) -> int:
        return len(self._actors)

    def actors(self) -> list[Actor]:
        """Return all actors as they are now."""
        return list(self._actors.values())

    def offer(self, envelope_id: int, request: Request) -> None:
        """Hand a request to the envelope's actor, waking it from the database if need be."""
        actor = self._actors.get(envelope_id)
        if actor is None:
            actor = self._enter(Actor(envelope_id, self))
            actor.offer(request)
            self.want_load(actor)
        else:
            actor.offer(request)

    def adopt(self, log: ClaimLog) -> None:
        """Take in an envelope just created: it needs no loading."""
        envelope_id = log.terms.envelope_id
        if envelope_id not in self._actors:
            self._enter(Actor(envelope_id, self, log), log.terms.count)

    def forget(self, actor: Actor) -> None:
        """Drop an actor; only one that nobody waits for."""
        if self._actors.get(actor.envelope_id) is actor:
            del self._actors[actor.envelope_id]
            self._weight -= self._weights.pop(actor.envelope_id)

    def retire(self, gone: Callable[[int], bool]) -> bool:
        """Forget the idle actors whose days have gone cold; returns whether some were busy and are still here."""
        busy = False
        for actor in [actor for envelope_id, actor in self._actors.items() if gone(envelope_id)]:
            if actor.quiet:
                self.forget(actor)
            else:
                actor.generation, busy = FOREIGN, True
        return busy

    def weigh(self, actor: Actor, shares: int) -> None:
        """Correct the weight of an actor whose log has just been read."""
        envelope_id = actor.envelope_id
        if self._actors.get(envelope_id) is actor:
            self._weight += shares + ENVELOPE_WEIGHT - self._weights[envelope_id]
            self._weights[envelope_id] = shares + ENVELOPE_WEIGHT
            if self._weight > self._live_shares:
                self._passivate()

    def distrust(self, envelope_id: int | None = None) -> None:
        """Let a log (or all) be read anew before it is shown: another server wrote, or may have."""
        if envelope_id is None:
            self.generation += 1
        elif (actor := self._actors.get(envelope_id)) is not None:
            actor.generation = FOREIGN

    def standing(self, envelope_id: int) -> int:
        """Return the generation, or FOREIGN for an envelope that another server should be serving."""
        return self.generation if self._owns(envelope_id) else FOREIGN

    def publish(self) -> None:
        """Carry counts over into the metrics; once a second, so that an answer costs an addition, a create nothing."""
        _live.set(len(self._actors))
        for outcome in Outcome:
            count, self.tally[outcome.code] = self.tally[outcome.code], 0
            _BY_RESULT[outcome.code].inc(count)

    def broken(self, actor: Actor, error: InvariantBroken) -> None:
        """Shout: this envelope is frozen."""
        _broken.inc()
        _log.critical("invariant broken; envelope frozen", envelope_id=str(actor.envelope_id), reason=error.detail)

    def statistics(self) -> dict[str, int]:
        """Return what is in memory: actors, their weight in shares, requests waiting."""
        return {"actors": len(self._actors), "weight": self._weight, "waiting": self.waiting}

    def _enter(self, actor: Actor, shares: int = 20) -> Actor:
        weight = shares + ENVELOPE_WEIGHT
        self._actors[actor.envelope_id] = actor
        self._weights[actor.envelope_id] = weight
        self._weight += weight
        if self._weight > self._live_shares:
            self._passivate()
        return actor

    def _passivate(self) -> None:
        """Move the hand: the oldest entries first; a touched or busy one goes to the back."""
        for _ in range(min(_SWEEP_PER_ARRIVAL * 4, len(self._actors))):
            envelope_id, actor = next(iter(self._actors.items()))
            if actor.quiet and not actor.touched:
                del self._actors[envelope_id]
                self._weight -= self._weights.pop(envelope_id)
                _passivated.inc()
                if self._weight <= self._live_shares:
                    return
            else:
                actor.touched = False
                self._actors.move_to_end(envelope_id)
