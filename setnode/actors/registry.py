"""All actors of this server: finds the actor of an envelope, has its log loaded, and forgets idle ones.

Memory is bounded by shares, not by envelopes. Passivation is CLOCK (second chance): an idle actor that no request has
referenced since the hand last passed is forgotten; its rows in Postgres hold everything. Creation does not count as a
reference, so a flood of new envelopes is forgotten before the envelopes that users open.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable

from envelope.claim_log import ClaimLog
from envelope.outcomes import Outcome
from errors import InvariantBroken
from runtime import logs, metrics
from runtime.clock import Clock
from setnode.actors.actor import Actor
from setnode.actors.context import FOREIGN
from setnode.actors.request import Request
from setnode.limits import ENVELOPE_WEIGHT, LIVE_SHARES, MISSED, PASSIVATE_STEPS, UNREAD_SHARES

_log = logs.get("setnode")
_live = metrics.gauge("hongbao_actors_live", "Envelopes in memory")
_passivated = metrics.counter("hongbao_actors_passivated_total", "Envelopes put to sleep to bound memory")
_opens = metrics.counter("hongbao_opens_total", "Answers to grab and open by result", ("result",))
_broken = metrics.counter("hongbao_invariants_broken_total", "Envelopes frozen because their money did not add up")
_BY_RESULT = [_opens.labels(outcome.value) for outcome in Outcome]


class Registry:
    """Maps envelope ID → actor. It is also the context of its actors (`setnode.actors.context`).

    `owns` says whether this server is the envelope's first on the ring. `weight` is what the actors hold, in shares.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        loop_time: Callable[[], float],
        enqueue_commit: Callable[[Actor], None],
        note_hot: Callable[[Actor], None],
        enqueue_load: Callable[[Actor], None],
        owns: Callable[[int], bool] = lambda _: True,
        live_shares: int = LIVE_SHARES,
    ) -> None:
        self._live_shares = live_shares
        # Not a plain dict: taking the first entry of one whose first entries were deleted walks past all the gaps.
        self._actors: OrderedDict[int, Actor] = OrderedDict()
        self._weights: dict[int, int] = {}
        self.weight = 0
        self.tally = [0] * len(Outcome)
        self.waiting = 0
        self.now_ms = clock.now_ms
        self.loop_time = loop_time
        self.enqueue_commit = enqueue_commit
        self.note_hot = note_hot
        self.enqueue_load = enqueue_load
        self.generation = 0
        self._heard: OrderedDict[int, None] = OrderedDict()
        """Envelopes without an actor to which another server has written: the MISSED heard of last."""
        self.postgres_life = 0
        self._owns = owns

    def __len__(self) -> int:
        """Envelopes in memory."""
        return len(self._actors)

    def actors(self) -> list[Actor]:
        """Return all actors as they are now."""
        return list(self._actors.values())

    def offer(self, envelope_id: int, request: Request) -> None:
        """Hand a request to the envelope's actor; make the actor and load its log if it is not in memory."""
        actor = self._actors.get(envelope_id)
        if actor is None:
            actor = self._add(Actor(envelope_id, self), UNREAD_SHARES)
            actor.offer(request)
            self.enqueue_load(actor)
        else:
            actor.offer(request)

    def adopt(self, log: ClaimLog) -> None:
        """Make the actor of an envelope that was just created, with its log; does nothing if it has an actor.

        Another server may have answered a repeat of the create, and have written to it, before we hear of our commit.
        """
        envelope_id = log.terms.envelope_id
        if envelope_id not in self._actors:
            actor = self._add(Actor(envelope_id, self, log), log.terms.count)
            if envelope_id in self._heard:
                actor.generation = FOREIGN

    def forget(self, actor: Actor) -> None:
        """Drop an actor at which no request waits. Does nothing if another actor has taken its place."""
        if self._actors.get(actor.envelope_id) is actor:
            del self._actors[actor.envelope_id]
            self.weight -= self._weights.pop(actor.envelope_id)

    def peek(self, envelope_id: int) -> Actor | None:
        """Return the actor of an envelope, if it has one; it does not count as referenced by this."""
        return self._actors.get(envelope_id)

    def shows(self, envelope_id: int) -> bool:
        """Whether an envelope's log is in memory and may be shown without asking Postgres."""
        actor = self._actors.get(envelope_id)
        return actor is not None and actor.shown_log is not None

    def sender_of(self, envelope_id: int) -> str | None:
        """Return who sent an envelope whose log is in memory; None for others."""
        actor = self._actors.get(envelope_id)
        return None if actor is None or actor.log is None else actor.log.terms.sender

    def __contains__(self, envelope_id: int) -> bool:
        """Whether an envelope has an actor."""
        return envelope_id in self._actors

    def forget_idle(self, envelope_ids: Iterable[int]) -> None:
        """Forget the actors of these envelopes at which no request waits."""
        for envelope_id in envelope_ids:
            actor = self._actors.get(envelope_id)
            if actor is not None and actor.can_passivate:
                self.forget(actor)

    def retire(self, gone: Callable[[int], bool]) -> bool:
        """Forget the idle actors of envelopes that are `gone`; returns whether busy ones remain for another call.

        Busy ones are invalidated, so that nothing more is shown from their logs.
        """
        busy = False
        for actor in [actor for envelope_id, actor in self._actors.items() if gone(envelope_id)]:
            if actor.can_passivate:
                self.forget(actor)
            else:
                actor.generation, busy = FOREIGN, True
        return busy

    def set_weight(self, actor: Actor, shares: int) -> None:
        """Set the weight of an actor; forget others if memory is over its bound."""
        envelope_id = actor.envelope_id
        if self._actors.get(envelope_id) is actor:
            self.weight += shares + ENVELOPE_WEIGHT - self._weights[envelope_id]
            self._weights[envelope_id] = shares + ENVELOPE_WEIGHT
            if self.weight > self._live_shares:
                self._passivate()

    def invalidate(self, envelope_id: int | None = None) -> None:
        """Have a log (None: all logs) read again before it is shown: another server wrote, or may have written."""
        if envelope_id is None:
            self.generation += 1
        elif (actor := self._actors.get(envelope_id)) is not None:
            actor.generation = FOREIGN
        else:
            self._heard[envelope_id] = None
            if len(self._heard) > MISSED:
                self._heard.popitem(last=False)

    def renew(self, postgres_life: int) -> None:
        """Have all logs read again before anything is shown or decided: another Postgres answers."""
        self.postgres_life = postgres_life
        self.invalidate()

    def generation_of(self, envelope_id: int) -> int:
        """Return the present generation, or FOREIGN for an envelope that another server owns."""
        return self.generation if self._owns(envelope_id) else FOREIGN

    def publish(self) -> None:
        """Add the counts since the last call to the metrics; once a second, so that an answer costs one addition."""
        _live.set(len(self._actors))
        for outcome in Outcome:
            count, self.tally[outcome.code] = self.tally[outcome.code], 0
            _BY_RESULT[outcome.code].inc(count)

    def report_broken(self, actor: Actor, error: InvariantBroken) -> None:
        """Log and count a frozen envelope."""
        _broken.inc()
        _log.critical("invariant broken; envelope frozen", envelope_id=str(actor.envelope_id), reason=error.detail)

    def _add(self, actor: Actor, shares: int) -> Actor:
        weight = shares + ENVELOPE_WEIGHT
        self._actors[actor.envelope_id] = actor
        self._weights[actor.envelope_id] = weight
        self.weight += weight
        if self.weight > self._live_shares:
            self._passivate()
        return actor

    def _passivate(self) -> None:
        """Move the CLOCK's hand: forget the oldest idle actors; a referenced or busy one goes to the back."""
        for _ in range(min(PASSIVATE_STEPS, len(self._actors))):
            envelope_id, actor = next(iter(self._actors.items()))
            if actor.can_passivate and not actor.referenced:
                del self._actors[envelope_id]
                self.weight -= self._weights.pop(envelope_id)
                _passivated.inc()
                if self.weight <= self._live_shares:
                    return
            else:
                actor.referenced = False
                self._actors.move_to_end(envelope_id)
