"""The actor of one envelope: a mailbox, first in first out, and at most one transaction in flight.

An actor is not a task: it is moved by the request that arrives, by the committer that collects what it decided and
by the loader that brings its log. That keeps an idle envelope at the size of its log and an arrival at a few
microseconds. All methods are synchronous, so between "mailbox empty" and "idle" there is no await and no wake-up
can be lost.

    LOADING ──log──▶ IDLE ──write needed──▶ READY ──collect──▶ WRITING ──settle──▶ IDLE or READY
       ▲                                                          │
       └────────────── conflict or lost connection ───────────────┘

An invariant that breaks leads to FROZEN from anywhere: nobody is answered from a log that is not the truth.

Where hundreds wait, a transaction takes half of them, and what it decided is told only once the next one is on its way:
Python answers while Postgres writes. Those `owed` an answer are told before anything else is said of the envelope.
"""

from collections.abc import Sequence

from envelope.claim_log import ClaimLog
from envelope.decide import NOT_FOUND, Answer, judge, may_see, open_share
from envelope.errors import HongbaoError, InvariantBroken, Refused, Unavailable
from envelope.outcomes import Entry, Outcome
from setnode.actors.batch import ClaimBatch
from setnode.actors.doubt import drop_counted, may_have_written, tried_at, truth, unknown
from setnode.actors.request import CANCEL, DETAIL, EXPIRE, GRAB, OPEN, Decision, Deferred, Request
from setnode.actors.shown import KEEP_FROM, ShownClaims
from setnode.actors.sight import cannot_cancel, hidden
from setnode.actors.stage import FOREIGN, FROZEN, IDLE, LOADING, READY, WRITING, Phase, Stage
from setnode.actors.views import as_json, detail_view
from setnode.limits import FROZEN_S, HALVES_FROM, HOT_AT, MAILBOX

_OPENED = Outcome.OPENED


class Actor:
    """Serialises everything that happens to one envelope on this server."""

    __slots__ = (
        "decided", "envelope_id", "frozen_until", "generation", "log", "mailbox", "owed", "phase", "shown", "stage",
        "touched",
    )  # fmt: skip

    def __init__(self, envelope_id: int, stage: Stage, log: ClaimLog | None = None) -> None:
        self.envelope_id = envelope_id
        self.stage = stage
        self.log = log
        self.phase: Phase = LOADING if log is None else IDLE
        self.mailbox: list[Request] | None = None
        self.decided: list[Request] | None = None
        self.owed: list[Request] | None = None
        self.shown: ShownClaims | None = None
        self.frozen_until = 0.0
        self.touched = False  # one that is made and never asked for has one lap of the hand, not two
        self.generation = stage.standing(envelope_id)

    @property
    def waiting(self) -> int:
        """Requests in the mailbox."""
        return len(self.mailbox) if self.mailbox else 0

    @property
    def oldest(self) -> float:
        """When the request at the head of the mailbox arrived (loop time); infinity when there is none."""
        return self.mailbox[0].arrived if self.mailbox else float("inf")

    @property
    def foreign(self) -> bool:
        """Whether another server should be serving this envelope: it must hear of what is written here."""
        return self.generation != self.stage.generation and self.stage.standing(self.envelope_id) == FOREIGN

    @property
    def quiet(self) -> bool:
        """Whether it can be passivated without anybody noticing."""
        return self.phase in (IDLE, FROZEN) and not self.mailbox

    def offer(self, request: Request) -> None:
        """Take a request: answer it at once if that needs no write and nobody waits before it."""
        self.touched = True
        if self.phase is IDLE:
            if request.ask is OPEN:
                if request.password_mac is not None and self.generation != self.stage.generation:
                    # Another server may have counted wrong passwords, and a right one meets nothing in Postgres.
                    self._ask_for_log()
                # Whoever may win goes straight to the mailbox; the ladder is asked once, when the batch is made.
                elif self._cannot_win(request.user) and self._answered_at_once(request):
                    return
            elif self.generation != self.stage.generation:
                # Another server may have written meanwhile. An open without a password needs no such care: if the log
                # is old its claim meets the rival's and is decided again.
                self._ask_for_log()
            elif self._answered_at_once(request):
                return
        mailbox = self.mailbox or self._mail()
        before = len(mailbox)
        if before >= MAILBOX:
            request.fail(Unavailable("busy", "too many are opening this envelope at once; try again"))
            return
        mailbox.append(request)
        stage = self.stage
        stage.waiting += 1
        if self.phase is IDLE:
            self.phase = READY
            stage.want_commit(self)
        elif before == HOT_AT - 1 or self.phase is FROZEN:
            self._stir()

    def collect(self, batch: ClaimBatch, limit: int, stale: float) -> None:
        """Decide up to `limit` requests, in order, and add what they write to `batch`. Called only when READY.

        Of a great crowd at most half, those owed an answer included: they hear it, and ask again, while Postgres writes
        the other half. Requests that arrived before `stale` (loop time) are too old to win. If nothing needs writing
        everybody is answered here and the actor is done with this round.
        """
        log, mailbox = self.log, self.mailbox
        if log is None or not mailbox:
            return
        crowd = len(mailbox) if self.owed is None else len(mailbox) + len(self.owed)
        if crowd >= HALVES_FROM:
            limit = min(limit, (crowd + 1) // 2)
        if len(mailbox) <= limit:
            decided, self.mailbox = mailbox, None
        else:
            decided, self.mailbox = mailbox[:limit], mailbox[limit:]
        self.decided = decided
        self.stage.waiting -= len(decided)
        claims, tries, now_ms = batch.claims, batch.tries, batch.at_ms
        before = len(claims), len(tries)
        try:
            for request in decided:
                if request.arrived < stale and not request.unsettled:
                    request.decision = self._answer_too_late(request)
                elif request.ask is OPEN:
                    request.decision = self._decide_open(log, request, batch, now_ms)
                else:
                    request.decision = self._decide(log, request, batch, now_ms)
        except InvariantBroken as broken:
            batch.cut_back(before)
            self.freeze(broken)
            return
        self.phase = WRITING
        if (len(claims), len(tries)) == before:
            self.settle()
        else:
            batch.actors.append(self)

    def settle(self, *, owe: bool = False) -> bool:
        """Answer everybody decided, in order: what they hear is durable now.

        With `owe`, and a great crowd of which others wait for the next transaction, they are owed their answer until
        `tell_owed`, which the caller sees to. Returns whether anybody is. Who is to be shown the envelope as this
        commit left it is not put off, nor are those before him: the next one is decided by then.
        """
        decided, self.decided = self.decided or [], None
        if self.owed is not None:
            self.tell_owed()
        log = self.log
        if log is not None:
            log.committed = len(log.winners) + (log.closing is not None)
        if owe and self.mailbox and len(self.mailbox) + len(decided) >= HALVES_FROM:
            shown = _last_shown(decided)
            decided, self.owed = decided[:shown], decided[shown:] or None
        self._tell_decided(decided)
        if self.mailbox and self.generation != self.stage.generation and log is not None and log.terms.password_mac:
            self._ask_for_log()
        else:
            self._rest()
        return self.owed is not None

    def tell_owed(self) -> None:
        """Answer those whose claims are durable and who have not been told yet."""
        if self.owed is not None:
            owed, self.owed = self.owed, None
            self._tell_decided(owed)

    def _tell_decided(self, decided: list[Request]) -> None:
        tally = self.stage.tally
        for request in decided:
            answer = request.decision
            if isinstance(answer, Answer):
                request.answer(answer)
                tally[answer.outcome.code] += 1
            elif isinstance(answer, HongbaoError):
                request.fail(answer)
            else:
                self._show(request)

    def reload(self, *, in_doubt: bool) -> None:
        """Throw the log away and ask for it anew: a rival wrote, or (`in_doubt`) the commit's outcome was lost.

        Everybody decided goes back to the head of the mailbox, in order; the truth answers them.
        """
        decided, self.decided = self.decided or [], None
        alone = self.generation == self.stage.generation
        for request in decided:
            request.in_doubt |= in_doubt and may_have_written(request)
            if not alone:
                request.tried_at = 0
            elif in_doubt:
                request.tried_at = tried_at(request)
        self.mailbox = decided + (self.mailbox or [])
        self.stage.waiting += len(decided)
        self._ask_for_log()

    def _ask_for_log(self) -> None:
        self.tell_owed()
        self.log = self.shown = None
        self.phase = LOADING
        self.generation = self.stage.standing(self.envelope_id)
        self.stage.want_load(self)

    def loaded(self, log: ClaimLog) -> None:
        """Take the log that the loader found; answer at once those at the head who need no write."""
        self.log = log
        self.phase = IDLE
        self.stage.weigh(self, log.terms.count)
        mailbox, answered = self._mail(), 0
        drop_counted(log, mailbox, alone=self.generation == self.stage.generation)
        while answered < len(mailbox) and self._answered_at_once(mailbox[answered]):
            answered += 1
        self.mailbox = mailbox[answered:]
        self.stage.waiting -= answered
        self._rest()

    def freeze(self, broken: InvariantBroken) -> None:
        """Answer nobody from this log again; whoever waits hears that it is frozen. The loader may thaw it."""
        self.stage.broken(self, broken)
        waiting = [*(self.decided or ()), *self._emptied()]
        self.decided = self.log = self.shown = None
        self.phase = FROZEN
        self.frozen_until = self.stage.loop_time() + FROZEN_S
        for request in waiting:
            request.fail(unknown() if request.unsettled else _frozen())

    def _stir(self) -> None:
        """Somebody has joined those who wait: at a READY actor they are many now, a FROZEN one is to be looked at."""
        if self.phase is FROZEN:
            self._knock()
        elif self.phase is READY:
            self.stage.call_hot(self)

    def _knock(self) -> None:
        """Read the log again once in a while: an operator may have mended it."""
        if self.stage.loop_time() >= self.frozen_until:
            self._ask_for_log()
            return
        for request in self._emptied():
            request.fail(_frozen())

    def turn_away(self, error: HongbaoError) -> None:
        """Tell everybody who waits that there is no answer now; who needs no write is told the truth all the same."""
        for request in self._emptied():
            answer = None if self.log is None else self._answer_without_write(request)
            self._tell(request, answer or (unknown() if request.unsettled else error))
        if self.log is not None:
            self.phase = IDLE

    def give_up(self) -> list[Request]:
        """Return those who wait, in order: somebody else answers them (the day has gone cold)."""
        return self._emptied()

    def not_found(self) -> None:
        """Tell everybody who waits that there is no such envelope."""
        for request in self._emptied():
            if request.ask in (OPEN, GRAB):
                self._tell(request, NOT_FOUND)
            else:
                request.fail(Refused("not_found", "there is no such envelope"))

    def _rest(self) -> None:
        if self.mailbox:
            self.phase = READY
            self.stage.want_commit(self)
            if len(self.mailbox) >= HOT_AT:
                self.stage.call_hot(self)
        else:
            self.mailbox = None
            self.phase = IDLE

    def _mail(self) -> list[Request]:
        if self.mailbox is None:
            self.mailbox = []
        return self.mailbox

    def _emptied(self) -> list[Request]:
        """Return the requests in the mailbox and leave it empty; nobody before them is still owed an answer."""
        self.tell_owed()
        mailbox, self.mailbox = self.mailbox or [], None
        self.stage.waiting -= len(mailbox)
        return mailbox

    def _cannot_win(self, user: str) -> bool:
        log = self.log
        return log is None or log.closing is not None or user in log.winners or log.sold_out

    def _answered_at_once(self, request: Request) -> bool:
        """Answer a request that needs no write; False when it does and was left alone."""
        if request.ask is DETAIL:
            self._show(request)
            return True
        answer = self._answer_without_write(request)
        if answer is None:
            return False
        self._tell(request, answer)
        return True

    def _tell(self, request: Request, answer: Answer | HongbaoError) -> None:
        """Tell an outcome, and count it, or why there is none."""
        if isinstance(answer, Answer):
            request.answer(answer)
            self.stage.tally[answer.outcome.code] += 1
        else:
            request.fail(answer)

    def _answer_without_write(self, request: Request) -> Answer | HongbaoError | None:
        """Return the answer if it needs no write: every grab, and an open that cannot win."""
        if self.log is None or request.ask not in (OPEN, GRAB):
            return None
        answer = judge(self.log, request.user, token_ok=request.token_ok, now_ms=self.stage.now_ms())
        open_wins = request.ask is OPEN and answer.outcome is Outcome.OPENABLE
        return None if open_wins else truth(self.log, request, answer)

    def _answer_too_late(self, request: Request) -> Answer | HongbaoError:
        """Return what one hears whose caller may have given up: he wins nothing any more."""
        return self._answer_without_write(request) or Unavailable("busy", "this envelope is very busy; try again")

    def _decide(self, log: ClaimLog, request: Request, batch: ClaimBatch, now_ms: int) -> Decision:
        """Decide anything but an open: what it writes goes into the batch."""
        if request.ask is GRAB:
            return judge(log, request.user, token_ok=request.token_ok, now_ms=now_ms)
        if request.ask is CANCEL:
            return self._decide_cancel(log, request, batch, now_ms)
        if request.ask is EXPIRE and not log.final and now_ms >= log.terms.expires_at_ms:
            batch.add_closing(log, log.close(Entry.EXPIRED, now_ms))
        return Deferred.AS_COMMITTED

    def _decide_open(self, log: ClaimLog, request: Request, batch: ClaimBatch, now_ms: int) -> Answer | HongbaoError:
        answer = open_share(
            log, request.user, token_ok=request.token_ok, password_mac=request.password_mac, now_ms=now_ms
        )
        if answer.outcome is _OPENED:
            batch.add_open(log, request.user, answer)
        elif answer.outcome is Outcome.WRONG_PASSWORD and answer.extra and answer.extra.pop("counted", False):
            batch.add_wrong_try(log, request.user)
        return truth(log, request, answer) if request.in_doubt else answer

    def _decide_cancel(self, log: ClaimLog, request: Request, batch: ClaimBatch, now_ms: int) -> Decision:
        """Close what is left, or show how it was closed."""
        refusal = cannot_cancel(log, request)
        if refusal is not None:
            return refusal
        if log.closing is not None:
            return Deferred.AS_COMMITTED
        entry = Entry.EXPIRED if now_ms >= log.terms.expires_at_ms else Entry.CANCELED
        batch.add_closing(log, log.close(entry, now_ms))
        return Deferred.AS_COMMITTED

    def _show(self, request: Request) -> None:
        """Tell how the envelope stands, to whoever may see it; expiry only asks whether it is final."""
        log = self.log
        if log is not None and request.ask is EXPIRE:
            request.tell({"final": log.final})
        elif log is None:
            request.fail(Unavailable("envelope_unavailable", "the envelope is being read; try again"))
        elif may_see(log, request.user, token_ok=request.token_ok):
            view = detail_view(log, request.user, self.stage.now_ms(), self._shown_claims(log))
            request.tell(as_json(view), request.user == log.terms.sender)
        else:
            request.fail(hidden())

    def _shown_claims(self, log: ClaimLog) -> ShownClaims:
        """Return the claims as they are shown; many are kept, and weighed: as much again as the log at most."""
        shown = self.shown or ShownClaims(log)
        shown.catch_up()
        if self.shown is None and shown.count >= KEEP_FROM:
            self.shown = shown
            self.stage.weigh(self, 2 * log.terms.count)
        return shown


def _frozen() -> InvariantBroken:
    return InvariantBroken("frozen", "this envelope is frozen until an operator has looked at it; no money moved")


def _last_shown(decided: Sequence[Request]) -> int:
    """Return how many go to the last who is to be shown the envelope, him included."""
    for position in range(len(decided), 0, -1):
        if isinstance(decided[position - 1].decision, Deferred):
            return position
    return 0
