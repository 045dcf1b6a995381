"""What may be told to those whose commit's outcome was lost: only what the log proves.

The rule for wrong passwords. A count is written as a number, and only if the stored one is the number before
(`count_wrong_passwords`), all or nothing with the claims of its envelope. So:

- After a conflict nothing of the batch was written for this envelope: the try is judged anew, and counted once.
- After a lost commit the request remembers its number (`tried_at`). Does the log that is read then show less, the
  commit has not gone in: the try is judged anew, and should the lost commit arrive after all the two meet at that
  number and one conflicts. Does it show that number or more, the try stands: its password is not looked at again.
- Unless another server may have written meanwhile (one was heard, or this one stands in for the owner): then the number
  may be the other's, nobody can know, and the try is judged and counted again. One typing error may cost two
  tries, five tries never become six. Not covered: the rival whose notification has not arrived when the log is read.
"""

from collections.abc import Iterable

import msgspec

from envelope.claim_log import ClaimLog
from envelope.decide import Answer
from envelope.errors import HongbaoError, Unavailable
from envelope.limits import LIMITS
from envelope.outcomes import Outcome
from setnode.actors.request import Ask, Deferred, Request


def may_have_written(request: Request) -> bool:
    """Say whether what was decided for this request was to be written."""
    decision = request.decision
    if isinstance(decision, Answer):
        return decision.outcome is Outcome.OPENED
    return request.ask is Ask.CANCEL and decision is Deferred.AS_COMMITTED


def tried_at(request: Request) -> int:
    """Return at which count the wrong password decided for this request was to be written; 0 where there was none."""
    decision = request.decision
    if request.password_mac is None or not isinstance(decision, Answer):
        return 0
    if decision.outcome is not Outcome.WRONG_PASSWORD:
        return 0
    return LIMITS.wrong_password_tries - (decision.extra or {})["tries_left"]


def drop_counted(log: ClaimLog, requests: Iterable[Request], *, alone: bool) -> None:
    """Take the password from those whose wrong try stands in the log, so that it is not counted a second time.

    `alone`: no other server may have written. Otherwise what they tried is forgotten and will be counted again.
    """
    tries = log.wrong_tries or {}
    for request in requests:
        if not alone:
            request.tried_at = 0
        elif request.tried_at and tries.get(request.user, 0) >= request.tried_at:
            request.password_mac = None


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
        same = isinstance(before, Answer) and before.seq == answer.seq
        return msgspec.structs.replace(answer, outcome=Outcome.OPENED) if same else answer
    return answer if answer.outcome is Outcome.OPENED or log.final else unknown()


def unknown() -> Unavailable:
    """Return what is told to one whose claim may or may not stand."""
    return Unavailable(
        "outcome_unknown", "repeat the request: it is safe and tells the real outcome", outcome_known=False
    )
