"""The actor of one envelope: a mailbox, first in first out, and at most one transaction in flight.

An actor is not a task: it is moved by the request that arrives, by the committer that collects what it decided and
by the loader that brings its log. That keeps an idle envelope at the size of its log and an arrival at a few
microseconds. All methods are synchronous, so between "mailbox empty" and "idle" there is no await and no wake-up
can be lost.

    LOADING ──log──▶ IDLE ──write needed──▶ READY ──collect──▶ WRITING ──settle──▶ IDLE or READY
       ▲                                                          │
       └────────────── conflict or lost connection ───────────────┘

An invariant that breaks leads to FROZEN from anywhere: nobody is answered from a log that is not the truth.
"""

from collections import deque
from collections.abc import Sequence
from enum import IntEnum
from typing import Protocol

from envelope.claim_log import ClaimLog
from envelope.decide import NOT_FOUND, Answer, judge, may_see, open_share
from envelope.errors import HongbaoError, InvariantBroken, Refused, Unavailable
from envelope.outcomes import Entry, Outcome
from setnode.batch import ClaimBatch
from setnode.limits import FROZEN_S, MAILBOX, STALE_S
from setnode.request import Ask, Request
from setnode.views import detail_view


class Phase(IntEnum):
    """Where an actor is; see the picture above."""

    LOADING = 0
    IDLE = 1
    READY = 2
    WRITING = 3
    FROZEN = 4


class Stage(Protocol):
    """What an actor needs of its surroundings."""

    def now_ms(self) -> int:
        """Return the instant of the business clock."""

    def loop_time(self) -> float:
        """Return the event loop's time, as in `Request.arrived`."""

    def want_commit(self, actor: "Actor") -> None:
        """Ask the committer to collect from this actor."""

    def want_load(self, actor: "Actor") -> None:
        """Ask the loader for this actor's log."""

    def answered(self, outcomes: Sequence[Outcome]) -> None:
        """Count what was answered."""

    def broken(self, actor: "Actor", error: InvariantBroken) -> None:
        """Shout: the money of this envelope is not what it should be."""

    def forget(self, actor: "Actor") -> None:
        """Drop an actor that nobody waits for."""


class Actor:
    """Serialises everything that happens to one envelope on this server."""

    __slots__ = ("decided", "envelope_id", "frozen_until", "log", "mailbox", "phase", "stage", "touched")

    def __init__(self, envelope_id: int, stage: Stage, log: ClaimLog | None = None) -> None:
        self.envelope_id = envelope_id
        self.stage = stage
        self.log = log
        self.phase = Phase.LOADING if log is None else Phase.IDLE
        self.mailbox: deque[Request] | None = None
        self.decided: list[tuple[Request, Answer | HongbaoError | None]] | None = None
        self.frozen_until = 0.0
        self.touched = True

    @property
    def waiting(self) -> int:
        """Requests in the mailbox."""
        return len(self.mailbox) if self.mailbox else 0

    @property
    def oldest(self) -> float:
        """When the request at the head of the mailbox arrived (loop time); infinity when there is none."""
        return self.mailbox[0].arrived if self.mailbox else float("inf")

    @property
    def quiet(self) -> bool:
        """Whether it can be passivated without anybody noticing."""
        return self.phase in (Phase.IDLE, Phase.FROZEN) and not self.mailbox

    def offer(self, request: Request) -> None:
        """Take a request: answer it at once if that needs no write and nobody waits before it."""
        self.touched = True
        if self.phase is Phase.IDLE and self._answer_now(request):
            return
        mailbox = self._mail()
        if len(mailbox) >= MAILBOX:
            request.fail(Unavailable("busy", "too many are opening this envelope at once; try again"))
            return
        mailbox.append(request)
        if self.phase is Phase.IDLE:
            self.phase = Phase.READY
            self.stage.want_commit(self)
        elif self.phase is Phase.FROZEN:
            self._knock()

    def collect(self, batch: ClaimBatch, limit: int) -> None:
        """Decide what waits, in order, and add up to `limit` claims to `batch`. Called only when READY.

        If nothing needs writing everybody is answered here and the actor is done with this round.
        """
        if self.log is None or self.mailbox is None:
            return
        self.decided = []
        before = len(batch)
        try:
            self._decide_all(batch, before + limit)
        except InvariantBroken as broken:
            batch.cut_back(before)
            self.freeze(broken)
            return
        self.phase = Phase.WRITING
        if len(batch) == before:
            self.settle()
        else:
            batch.actors.append(self)

    def _decide_all(self, batch: ClaimBatch, most: int) -> None:
        now_ms, stale = self.stage.now_ms(), self.stage.loop_time() - STALE_S
        mailbox, decided = self._mail(), self.decided if self.decided is not None else []
        while mailbox and len(batch) < most:
            request = mailbox.popleft()
            late = request.arrived < stale and not request.in_doubt
            decided.append((request, None))
            answer = self._refuse(request) if late else self._decide(request, batch, now_ms)
            decided[-1] = (request, answer)

    def settle(self) -> None:
        """Answer everybody decided, in order: what they hear is durable now."""
        decided, self.decided = self.decided or [], None
        if self.log is not None:
            self.log.committed = len(self.log.winners) + (self.log.closing is not None)
        outcomes = []
        for request, answer in decided:
            if isinstance(answer, tuple):
                request.answer(answer)
                outcomes.append(answer.outcome)
            elif answer is None:
                self._tell_detail(request)
            else:
                request.fail(answer)
        self.stage.answered(outcomes)
        self._rest()

    def reload(self) -> None:
        """Throw the log away and ask for it anew: a rival wrote, or the outcome of the commit was lost.

        Everybody decided goes back to the head of the mailbox, in order; the truth answers them.
        """
        decided, self.decided = self.decided or [], None
        for request, _ in reversed(decided):
            request.in_doubt = True
            self._mail().appendleft(request)
        self.log = None
        self.phase = Phase.LOADING
        self.stage.want_load(self)

    def loaded(self, log: ClaimLog) -> None:
        """Take the log that the loader found."""
        self.log = log
        self.phase = Phase.IDLE
        self._rest()

    def freeze(self, broken: InvariantBroken) -> None:
        """Answer nobody from this log again; whoever waits hears that it is frozen. The loader may thaw it."""
        self.stage.broken(self, broken)
        waiting = [request for request, _ in self.decided or ()] + list(self.mailbox or ())
        self.decided = self.mailbox = self.log = None
        self.phase = Phase.FROZEN
        self.frozen_until = self.stage.loop_time() + FROZEN_S
        for request in waiting:
            request.fail(_frozen())

    def _knock(self) -> None:
        """Read the log again once in a while: an operator may have mended it."""
        if self.stage.loop_time() >= self.frozen_until:
            self.phase = Phase.LOADING
            self.stage.want_load(self)
            return
        mailbox, self.mailbox = self.mailbox, None
        for request in mailbox or ():
            request.fail(_frozen())

    def refuse(self, error: HongbaoError) -> None:
        """Tell everybody who waits that there is no answer now; who needs no write is told the truth all the same."""
        mailbox, self.mailbox = self.mailbox, None
        outcomes = []
        for request in mailbox or ():
            answer = None if self.log is None else self._without_write(request)
            if answer is None:
                request.fail(error)
            else:
                request.answer(answer)
                outcomes.append(answer.outcome)
        self.stage.answered(outcomes)
        if self.log is not None:
            self.phase = Phase.IDLE

    def not_found(self) -> None:
        """Tell everybody who waits that there is no such envelope."""
        mailbox, self.mailbox = self.mailbox, None
        for request in mailbox or ():
            if request.ask in (Ask.OPEN, Ask.GRAB):
                request.answer(NOT_FOUND)
            else:
                request.fail(Refused("not_found", "there is no such envelope"))

    def _rest(self) -> None:
        if self.mailbox:
            self.phase = Phase.READY
            self.stage.want_commit(self)
        else:
            self.mailbox = None
            self.phase = Phase.IDLE

    def _mail(self) -> deque[Request]:
        if self.mailbox is None:
            self.mailbox = deque()
        return self.mailbox

    def _answer_now(self, request: Request) -> bool:
        if request.ask is Ask.DETAIL:
            self._tell_detail(request)
            return True
        answer = self._without_write(request)
        if answer is None:
            return False
        request.answer(answer)
        self.stage.answered((answer.outcome,))
        return True

    def _without_write(self, request: Request) -> Answer | None:
        """Return the answer if it needs no write: every grab, and an open that cannot win."""
        if self.log is None or request.ask not in (Ask.OPEN, Ask.GRAB):
            return None
        answer = judge(self.log, request.user, token_ok=request.token_ok, now_ms=self.stage.now_ms())
        open_wins = request.ask is Ask.OPEN and answer.outcome is Outcome.OPENABLE
        return None if open_wins else answer

    def _refuse(self, request: Request) -> Answer | HongbaoError:
        return self._without_write(request) or Unavailable("busy", "this envelope is very busy; try again")

    def _decide(self, request: Request, batch: ClaimBatch, now_ms: int) -> Answer | HongbaoError | None:
        """Return the answer to give after the commit; None stands for the detail as it will be then."""
        log = self.log
        if log is None:
            return None
        if request.ask is Ask.OPEN:
            return self._decide_open(log, request, batch, now_ms)
        if request.ask is Ask.GRAB:
            return judge(log, request.user, token_ok=request.token_ok, now_ms=now_ms)
        if request.ask is Ask.CANCEL:
            return self._decide_cancel(log, request, batch, now_ms)
        if request.ask is Ask.EXPIRE and not log.final and now_ms >= log.terms.expires_at_ms:
            batch.add_closing(log, log.close(Entry.EXPIRED, now_ms))
        return None

    def _decide_open(self, log: ClaimLog, request: Request, batch: ClaimBatch, now_ms: int) -> Answer:
        answer = open_share(
            log, request.user, token_ok=request.token_ok, password_mac=request.password_mac, now_ms=now_ms
        )
        if answer.outcome is Outcome.OPENED:
            batch.add_open(log, request.user, answer)
        elif answer.outcome is Outcome.WRONG_PASSWORD and answer.extra and answer.extra.pop("counted", False):
            batch.add_wrong_try(log, request.user)
        elif answer.outcome is Outcome.ALREADY_OPENED and request.in_doubt:
            # This very request wrote the claim; only the news of it was lost.
            return answer._replace(outcome=Outcome.OPENED)
        return answer

    def _decide_cancel(self, log: ClaimLog, request: Request, batch: ClaimBatch, now_ms: int) -> HongbaoError | None:
        if request.user != log.terms.sender:
            seen = may_see(log, request.user, token_ok=request.token_ok)
            return Refused("not_the_sender", "only its sender can cancel an envelope") if seen else _hidden()
        if log.closing is not None and log.closing.entry is not Entry.EXPIRED:
            return None
        if log.final:
            return Refused("already_final", "the envelope is sold out or closed; there is nothing left to cancel")
        entry = Entry.EXPIRED if now_ms >= log.terms.expires_at_ms else Entry.CANCELED
        batch.add_closing(log, log.close(entry, now_ms))
        return None

    def _tell_detail(self, request: Request) -> None:
        log = self.log
        if log is not None and request.ask is Ask.EXPIRE:
            request.tell({"final": log.final})
        elif log is None:
            request.fail(Unavailable("envelope_unavailable", "the envelope is being read; try again"))
        elif may_see(log, request.user, token_ok=request.token_ok):
            request.tell(detail_view(log, request.user, self.stage.now_ms()))
        else:
            request.fail(_hidden())


def _hidden() -> Refused:
    return Refused("not_invited", "this envelope is shown to its sender, to those it names and to bearers of its token")


def _frozen() -> InvariantBroken:
    return InvariantBroken("frozen", "this envelope is frozen until an operator has looked at it; no money moved")
