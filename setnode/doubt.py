"""What may be told to those whose commit's outcome was lost: only what the log proves."""

from envelope.claim_log import ClaimLog
from envelope.decide import Answer
from envelope.errors import HongbaoError, Unavailable
from envelope.outcomes import Outcome
from setnode.request import Ask, Request


def may_have_written(request: Request) -> bool:
    """Say whether what was decided for this request was to be written."""
    decision = request.decision
    if isinstance(decision, tuple):
        return decision.outcome is Outcome.OPENED
    return request.ask is Ask.CANCEL and decision is None


def truth(log: ClaimLog, request: Request, answer: Answer) -> Answer | HongbaoError:
    """Return what an open hears; one `in_doubt` hears only what the log proves.

    Found at the seq that it was given, this very request wrote the claim and only the news of it was lost. Not found,
    its transaction may still be on its way into the log, unless that is final: a rung that rests on the hour or on a
    password proves nothing.
    """
    if not request.in_doubt:
        return answer
    if answer.outcome is Outcome.ALREADY_OPENED:
        before = request.decision
        same = isinstance(before, tuple) and before.seq == answer.seq
        return answer._replace(outcome=Outcome.OPENED) if same else answer
    return answer if answer.outcome is Outcome.OPENED or log.final else unknown()


def unknown() -> Unavailable:
    """Return what is told to one whose claim may or may not stand."""
    return Unavailable(
        "outcome_unknown", "repeat the request: it is safe and tells the real outcome", outcome_known=False
    )
