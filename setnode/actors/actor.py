"""The actor of one envelope: a mailbox, first in first out, and at most one transaction in flight.

An actor is not a task. An arriving request, the committer that collects its decisions and the loader that brings its
log move it by synchronous calls. So an idle actor needs little more memory than its log, and between "mailbox empty"
and "idle" there is no await in which a wake-up could be lost.

    LOADING ──log──▶ IDLE ──write needed──▶ READY ──collect──▶ WRITING ──settle──▶ IDLE or READY
       ▲                                                          │
       └────────────── conflict or lost connection ───────────────┘

An IDLE or WRITING actor also goes back to LOADING if the next request needs a log that is up to date and another server
may have written. A broken invariant leads to FROZEN from any phase: no request is answered from a log that does not add
up. After FROZEN_S the next request makes the loader read the log again. An unexpected exception while an envelope is
decided or settled freezes that envelope alone; while it is shown, it fails the request that asked.
"""

from envelope.claim_log import ClaimLog
from envelope.decide import NOT_FOUND, Answer
from envelope.outcomes import not_found
from errors import HongbaoError, InvariantBroken, Unavailable
from runtime import logs
from setnode.actors.batch import ClaimBatch
from setnode.actors.context import FOREIGN, ActorContext
from setnode.actors.decisions import answer_without_write, decide
from setnode.actors.phase import Phase
from setnode.actors.request import Action, Request
from setnode.actors.showing import show
from setnode.actors.unknown_outcome import attempt_no, drop_counted_passwords, outcome_unknown, writes_claim
from setnode.limits import CLAIMS_JSON_FROM, FROZEN_S, HOT_AT, MAILBOX
from setnode.views.claims_json import ClaimsJson
from setnode.views.live_json import LiveFrame, live_frame, live_version

_log = logs.get("setnode")


class Actor:
    """Serialises everything that happens to one envelope on this server."""

    __slots__ = (
        "claims_json", "context", "decided", "envelope_id", "frozen_until", "generation", "log", "mailbox",
        "phase", "postgres_life", "read_at", "referenced",
    )  # fmt: skip

    def __init__(self, envelope_id: int, context: "ActorContext[Actor]", log: ClaimLog | None = None) -> None:
        self.envelope_id = envelope_id
        self.context = context
        self.log = log
        self.phase: Phase = Phase.LOADING if log is None else Phase.IDLE
        self.mailbox: list[Request] | None = None
        self.decided: list[Request] | None = None
        """The requests of the batch in flight, in order of arrival."""
        self.claims_json: ClaimsJson | None = None
        self.frozen_until = 0.0
        self.read_at = 0.0
        """Before its log's query was sent (loop time)."""
        self.referenced = False
        """The reference bit of the registry's CLOCK; not set by creation, so that unopened envelopes leave first."""
        self.generation = context.generation_of(envelope_id)
        """The registry's generation when the log was asked for, or FOREIGN: then it is read again before it is
        shown."""
        self.postgres_life = context.postgres_life
        """The life of Postgres in which the log was asked for: in another one it may be ahead of what is there."""

    @property
    def waiting(self) -> int:
        """Requests in the mailbox."""
        return len(self.mailbox) if self.mailbox else 0

    @property
    def oldest_at(self) -> float:
        """When the request at the head of the mailbox arrived (loop time); infinity if the mailbox is empty."""
        return self.mailbox[0].arrived_at if self.mailbox else float("inf")

    @property
    def foreign(self) -> bool:
        """Whether another server owns this envelope and must be notified of what is written here."""
        return self.generation != self.context.generation and self.context.generation_of(self.envelope_id) == FOREIGN

    @property
    def shown_log(self) -> ClaimLog | None:
        """The log, if its committed entries may be shown as they are; None if it must be read again first."""
        return self.log if self._up_to_date else None

    @property
    def can_passivate(self) -> bool:
        """Whether the registry may forget it: nothing is in flight and no request waits."""
        return self.phase in (Phase.IDLE, Phase.FROZEN) and not self.mailbox

    @property
    def _up_to_date(self) -> bool:
        """Whether no other server may have written since the log was asked for, as far as notifications say."""
        return self.generation == self.context.generation

    def offer(self, request: Request) -> None:
        """Take a request: answer it at once if that needs no write and no request waits before it, else queue it."""
        self.referenced = True
        if self.phase is Phase.IDLE and self._answered_when_idle(request):
            return
        mailbox = self.mailbox or self._ensure_mailbox()
        before = len(mailbox)
        if before >= MAILBOX:
            request.fail(Unavailable("busy", "too many are opening this envelope at once; try again"))
            return
        mailbox.append(request)
        context = self.context
        context.waiting += 1
        if self.phase is Phase.IDLE:
            self.phase = Phase.READY
            context.enqueue_commit(self)
        elif self.phase is Phase.FROZEN:
            self._thaw()
        elif before == HOT_AT - 1 and self.phase is Phase.READY:
            context.note_hot(self)

    def collect(self, batch: ClaimBatch, limit: int, stale: float) -> None:
        """Decide up to `limit` requests, in order, and add what they write to `batch`. Called only when READY.

        Requests that arrived before `stale` (loop time) get an answer that needs no write, else `busy`, unless
        a lost commit may have written them. If nothing needs to be written, all replies are sent here and the actor
        does not join the batch. If another server has written, the requests before the first that needs a fresh log
        are decided; if there are none, the log is read again.
        """
        log, mailbox = self.log, self.mailbox
        if log is None or not mailbox:
            return
        if self.postgres_life != self.context.postgres_life:
            self._request_log()
            return
        if not self._up_to_date and (limit := min(limit, self._decidable(mailbox))) == 0:
            self._request_log()
            return
        if len(mailbox) <= limit:
            decided, self.mailbox = mailbox, None
        else:
            decided, self.mailbox = mailbox[:limit], mailbox[limit:]
        self.decided = decided
        self.context.waiting -= len(decided)
        before = len(batch.claims), len(batch.tries)
        try:
            for request in decided:
                if request.arrived_at < stale and not request.maybe_written:
                    request.decision = self._answer_without_write(request) or _very_busy()
                else:
                    request.decision = decide(log, request, batch)
        except Exception as error:  # noqa: BLE001 - whatever it was, the envelopes beside it go on
            batch.cut_back(before)
            self.freeze(_broken("envelope_decides", error))
            return
        self.phase = Phase.WRITING
        if (len(batch.claims), len(batch.tries)) == before:
            self.settle()
        else:
            batch.actors.append(self)

    def settle(self) -> None:
        """Reply to every decided request, in order: their batch is durable, or they write nothing."""
        decided, self.decided = self.decided or [], None
        log = self.log
        if log is not None:
            log.mark_committed()
        if not self._reply_decided(decided):
            return
        # No unique key would stop a right password after five wrong ones at another server.
        if self.mailbox and not self._up_to_date and log is not None and log.terms.password_mac:
            self._request_log()
        else:
            self._next_phase()

    def reload(self, *, in_doubt: bool) -> None:
        """Drop the log and read it again: the batch conflicted, or (`in_doubt`) the commit's outcome was lost.

        Decided requests return to the head of the mailbox, in order, and are answered from the log that is read.
        """
        decided, self.decided = self.decided or [], None
        alone = self._up_to_date
        for request in decided:
            request.in_doubt |= in_doubt and writes_claim(request)
            if not alone:
                request.attempt_no = 0
            elif in_doubt:
                request.attempt_no = attempt_no(request)
        self.mailbox = decided + (self.mailbox or [])
        self.context.waiting += len(decided)
        self._request_log()

    def loaded(self, log: ClaimLog, read_at: float) -> None:
        """Take the log from the loader; answer the requests at the head that need no write, then go on.

        `read_at` (loop time) is before its query was sent: whoever came later may know what the log does not.
        """
        self.log = log
        self.read_at = read_at
        self.phase = Phase.IDLE
        self.context.set_weight(self, log.terms.count)
        mailbox, answered = self._ensure_mailbox(), 0
        drop_counted_passwords(log, mailbox, alone=self._up_to_date)
        fresh = len(mailbox) if self._up_to_date else self._decidable(mailbox)
        while answered < fresh and self._answered_at_once(mailbox[answered]):
            answered += 1
        self.mailbox = mailbox[answered:]
        self.context.waiting -= answered
        self._next_phase()

    def freeze(self, broken: InvariantBroken) -> None:
        """Drop the log, which violates an invariant, and refuse all requests until it has been read again."""
        self.context.report_broken(self, broken)
        waiting = [*(self.decided or ()), *self._take_all()]
        self.decided = self.log = self.claims_json = None
        self.phase = Phase.FROZEN
        self.frozen_until = self.context.loop_time() + FROZEN_S
        for request in waiting:
            request.fail(outcome_unknown() if request.maybe_written else _frozen())

    def reject_waiting(self, error: HongbaoError) -> None:
        """Reply to all waiting requests: with their answer if it needs no write, else with `error`.

        A request that a lost transaction may have written gets `outcome_unknown` instead of `error`. Only for a READY
        actor, which becomes IDLE, or a LOADING one, which stays so.
        """
        for request in self._take_all():
            answer = self._answer_without_write(request)
            self._reply(request, answer or (outcome_unknown() if request.maybe_written else error))
        if self.log is not None:
            self.phase = Phase.IDLE

    def take_waiting(self) -> list[Request]:
        """Return the waiting requests, in order, for the caller to answer: the day has gone cold."""
        return self._take_all()

    def reply_not_found(self) -> None:
        """Reply to all waiting requests that there is no such envelope."""
        for request in self._take_all():
            if request.maybe_written:
                request.fail(outcome_unknown())
            elif request.action in (Action.OPEN, Action.GRAB):
                self._reply(request, NOT_FOUND)
            else:
                request.fail(not_found())

    def _request_log(self) -> None:
        """Drop the log and ask the loader for it."""
        self.log = self.claims_json = None
        self.phase = Phase.LOADING
        self.generation = self.context.generation_of(self.envelope_id)
        self.postgres_life = self.context.postgres_life
        self.context.enqueue_load(self)

    def _thaw(self) -> None:
        """Read the log of a frozen envelope again if FROZEN_S are over: an operator may have repaired the rows."""
        if self.context.loop_time() >= self.frozen_until:
            self._request_log()
            return
        for request in self._take_all():
            request.fail(_frozen())

    def _next_phase(self) -> None:
        """Become READY if requests wait, else IDLE."""
        if self.mailbox:
            self.phase = Phase.READY
            self.context.enqueue_commit(self)
            if len(self.mailbox) >= HOT_AT:
                self.context.note_hot(self)
        else:
            self.mailbox = None
            self.phase = Phase.IDLE

    def _ensure_mailbox(self) -> list[Request]:
        if self.mailbox is None:
            self.mailbox = []
        return self.mailbox

    def _take_all(self) -> list[Request]:
        """Take all requests out of the mailbox."""
        mailbox, self.mailbox = self.mailbox or [], None
        self.context.waiting -= len(mailbox)
        return mailbox

    def _decidable(self, mailbox: list[Request]) -> int:
        """Return how many requests at the head may be decided though another server may have written.

        An open without a password always (see `_answered_when_idle`); the others if the log was read after they came.
        """
        for position, request in enumerate(mailbox):
            needs_fresh = request.action is not Action.OPEN or request.password_mac is not None
            if needs_fresh and request.arrived_at > self.read_at:
                return position
        return len(mailbox)

    def _cannot_win(self, user: str) -> bool:
        log = self.log
        return log is None or log.closing is not None or user in log.winners or log.sold_out

    def _answered_when_idle(self, request: Request) -> bool:
        """Reply to a request that finds no other one waiting; False if it needs a write, or a fresh log first.

        A log of an earlier life of Postgres is read again first. For an open without a password one that is behind is
        enough: the unique keys refuse a claim that was decided from it, and the open is decided again. No unique key
        stops a right password after five wrong ones at another server.
        """
        is_open = request.action is Action.OPEN
        if self.postgres_life != self.context.postgres_life:
            self._request_log()
            return False
        if not self._up_to_date and (not is_open or request.password_mac is not None):
            self._request_log()
            return False
        # An open that may win goes to the mailbox: the ladder is then evaluated once, when the batch is made.
        return (not is_open or self._cannot_win(request.user)) and self._answered_at_once(request)

    def _answered_at_once(self, request: Request) -> bool:
        """Reply to a request that needs no write; False if it needs one and was not answered."""
        if request.action is Action.DETAIL:
            self._reply_state(request)
            return True
        answer = self._answer_without_write(request)
        if answer is None:
            return False
        self._reply(request, answer)
        return True

    def _answer_without_write(self, request: Request) -> Answer | HongbaoError | None:
        if self.log is None or self.postgres_life != self.context.postgres_life:
            return None
        return answer_without_write(self.log, request, self.context.now_ms())

    def _reply(self, request: Request, answer: Answer | HongbaoError) -> None:
        if isinstance(answer, Answer):
            request.answer(answer)
            self.context.tally[answer.outcome.code] += 1
        else:
            request.fail(answer)

    def _reply_decided(self, decided: list[Request]) -> bool:
        """Reply to all; returns False if that failed, and the envelope is frozen."""
        tally, replies = self.context.tally, iter(decided)
        for request in replies:
            decision = request.decision
            try:
                if isinstance(decision, Answer):
                    request.answer(decision)
                    tally[decision.outcome.code] += 1
                elif isinstance(decision, HongbaoError):
                    request.fail(decision)
                else:
                    self._reply_state(request)
            except Exception as error:  # noqa: BLE001 - the batch's other envelopes must be settled
                self.freeze(_broken("envelope_settles", error))
                # The rest is durable and was not replied to: it must not be taken for refused.
                for left in (request, *replies):
                    left.fail(outcome_unknown())
                return False
        return True

    def _reply_state(self, request: Request) -> None:
        show(self.log, request, self.context.now_ms(), self._current_claims_json)

    def live(self, seen: str, since: int) -> LiveFrame | None:
        """Return what watchers are to be shown, with the claims from seq `since` on; None if `seen` is its version.

        None as well while no log is in memory: what is then read was committed, and is shown once it is.
        """
        log = self.log
        if log is None or seen == live_version(log, self.context.now_ms()):
            return None
        return live_frame(log, self.context.now_ms(), lambda: self._current_claims_json(log).best, since)

    def _current_claims_json(self, log: ClaimLog) -> ClaimsJson:
        """Return the committed claims as JSON. From CLAIMS_JSON_FROM claims on it is kept, and weighs like the log."""
        claims = self.claims_json or ClaimsJson(log)
        claims.catch_up()
        if self.claims_json is None and claims.count >= CLAIMS_JSON_FROM:
            self.claims_json = claims
            self.context.set_weight(self, 2 * log.terms.count)
        return claims


def _broken(check: str, error: Exception) -> InvariantBroken:
    """Return why an envelope freezes: the invariant that was broken, or the exception that nobody expected."""
    if isinstance(error, InvariantBroken):
        return error
    _log.error("unexpected error; its envelope freezes", exc_info=error)
    return InvariantBroken(check, f"{type(error).__name__}: {error}")


def _frozen() -> InvariantBroken:
    return InvariantBroken("frozen", "this envelope is frozen until an operator has looked at it; no money moved")


def _very_busy() -> Unavailable:
    return Unavailable("busy", "this envelope is very busy; try again")
