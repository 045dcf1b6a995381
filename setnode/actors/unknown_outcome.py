"""What may be replied to a request after its commit's outcome was lost: only what the log proves.

The rule for claims. The log is read again after the loss.

1. It holds the user's claim at the seq that this server assigned: the request wrote it. Reply OPENED. At another seq
   the user won by another request: reply ALREADY_OPENED.
2. It is final without the claim: the claim can never be committed. Reply the refusal.
3. The user can still win: the open is decided again. If the lost transaction commits after all, the unique keys let
   only one of the two claims in, and a conflict leads back to 1.
4. Otherwise the open is refused while the lost transaction may still commit: reply `outcome_unknown`. EXPIRED by the
   clock and WRONG_PASSWORD are such refusals, because the log is not final by either.

The rule for wrong passwords. A count is written as a number, and only if the stored one is the number before
(`count_wrong_passwords.sql`), all or nothing with the claims of its envelope. So:

- After a conflict nothing of this envelope was written: the try is decided again, and counted once.
- After a lost commit the request keeps its number (`attempt_no`). If the log that is read then shows a smaller count,
  the lost transaction has not committed: the try is decided again; should it commit after all, both write that number
  and one of them conflicts. If the log shows that number or more, the try is counted: its password is not checked
  again.
- If another server may have written meanwhile (it has notified us, or we stand in for the owner), the number may be
  that server's. It cannot be known, and the try is decided and counted again. One typing error may then cost two tries,
  but five tries never become six. Not covered: a server whose notification has not arrived when the log is read.
"""

from collections.abc import Iterable

import msgspec

from envelope.claim_log import ClaimLog
from envelope.decide import Answer
from envelope.limits import LIMITS
from envelope.outcomes import Outcome
from errors import HongbaoError, Unavailable
from setnode.actors.request import Action, Request, StateReply


def writes_claim(request: Request) -> bool:
    """Say whether the decision for this request was to be written to the claim log, as an open or a closing entry."""
    decision = request.decision
    if isinstance(decision, Answer):
        return decision.outcome is Outcome.OPENED
    return request.action is Action.CANCEL and decision is StateReply.AS_COMMITTED


def attempt_no(request: Request) -> int:
    """Return the count at which this request's wrong password was to be written; 0 if there was none."""
    decision = request.decision
    if request.password_mac is None or not isinstance(decision, Answer):
        return 0
    if decision.outcome is not Outcome.WRONG_PASSWORD:
        return 0
    return LIMITS.wrong_password_tries - (decision.extra or {})["tries_left"]


def drop_counted_passwords(log: ClaimLog, requests: Iterable[Request], *, alone: bool) -> None:
    """Remove the password of each request whose wrong try the log has counted, so that it is not counted again.

    `alone`: no other server can have written. Otherwise every `attempt_no` is reset and the tries are counted again.
    """
    for request in requests:
        if not alone:
            request.attempt_no = 0
        elif request.attempt_no and log.wrong_tries(request.user) >= request.attempt_no:
            request.password_mac = None


def provable_answer(log: ClaimLog, request: Request, answer: Answer) -> Answer | HongbaoError:
    """Return the reply to a request to which the ladder gives `answer`; for one `in_doubt` by the rule for claims."""
    if not request.in_doubt:
        return answer
    if answer.outcome is Outcome.ALREADY_OPENED:
        before = request.decision
        same = isinstance(before, Answer) and before.seq == answer.seq
        return msgspec.structs.replace(answer, outcome=Outcome.OPENED) if same else answer
    return answer if answer.outcome is Outcome.OPENED or log.final else outcome_unknown()


def outcome_unknown() -> Unavailable:
    """Return the reply to a request whose claim may or may not be committed."""
    return Unavailable(
        "outcome_unknown", "repeat the request: it is safe and returns the real outcome", outcome_known=False
    )
