"""Decides requests: the reply, and the rows that it needs. Synchronous; the log and the batch are its only state."""

from envelope.claim_log import ClaimLog
from envelope.decide import Answer, judge, open_share
from envelope.outcomes import Entry, Outcome
from errors import HongbaoError
from setnode.actors.access import cancel_refusal
from setnode.actors.batch import ClaimBatch
from setnode.actors.request import Action, Decision, Request, StateReply
from setnode.actors.unknown_outcome import provable_answer


def decide(log: ClaimLog, request: Request, batch: ClaimBatch) -> Decision:
    """Decide a request, in the log and in `batch`, which gets its rows. The caller replies after the commit.

    Raises InvariantBroken if the log does not add up; the caller then removes this envelope's rows from the batch.
    """
    action, now_ms = request.action, batch.at_ms
    if action is Action.OPEN:
        return _decide_open(log, request, batch)
    if action is Action.GRAB:
        return judge(log, request.user, token_ok=request.token_ok, now_ms=now_ms)
    if action is Action.CANCEL:
        return _decide_cancel(log, request, batch)
    if action is Action.EXPIRE and not log.final and now_ms >= log.terms.expires_at_ms:
        batch.add_closing(log, log.close(Entry.EXPIRED, now_ms))
    return StateReply.AS_COMMITTED


def answer_without_write(log: ClaimLog, request: Request, now_ms: int) -> Answer | HongbaoError | None:
    """Return the answer if it needs no write: every grab, and an open that cannot win; else None."""
    if request.action not in (Action.OPEN, Action.GRAB):
        return None
    answer = judge(log, request.user, token_ok=request.token_ok, now_ms=now_ms)
    open_may_win = request.action is Action.OPEN and answer.outcome is Outcome.OPENABLE
    return None if open_may_win else provable_answer(log, request, answer)


def _decide_open(log: ClaimLog, request: Request, batch: ClaimBatch) -> Answer | HongbaoError:
    answer = open_share(
        log, request.user, token_ok=request.token_ok, password_mac=request.password_mac, now_ms=batch.at_ms
    )
    if answer.outcome is Outcome.OPENED:
        batch.add_open(log, request.user, answer)
    elif answer.counted:
        batch.add_wrong_try(log, request.user)
    return provable_answer(log, request, answer) if request.in_doubt else answer


def _decide_cancel(log: ClaimLog, request: Request, batch: ClaimBatch) -> Decision:
    """Close the envelope unless it is closed; the reply is its state either way, or why the user may not cancel."""
    refusal = cancel_refusal(log, request)
    if refusal is not None:
        return refusal
    if log.closing is None:
        entry = Entry.EXPIRED if batch.at_ms >= log.terms.expires_at_ms else Entry.CANCELED
        batch.add_closing(log, log.close(entry, batch.at_ms))
    return StateReply.AS_COMMITTED
