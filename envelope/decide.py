"""The ladder of guards: what one request is answered, given the log and the time. Pure and synchronous.

`judge` answers a grab; `open_share` answers an open and appends the claim to the log if the user wins. The order of the
guards is `outcomes.PRECEDENCE`; `tests/unit/envelope/test_ladder.py` compares the two.
"""

import msgspec

from envelope.claim_log import ClaimLog
from envelope.limits import LIMITS
from envelope.outcomes import Entry, Outcome


class Answer(msgspec.Struct, frozen=True, gc=False):
    """The outcome of one request. `seq` is -1 and `amount_fen` 0 if the user holds no share.

    `extra` are further fields of the reply (`tries_left`, `password_required`, `opens_at_ms`). `counted` says that the
    request counted a wrong password in the log, which must be written with the claims; it is not sent to the client.
    """

    outcome: Outcome
    amount_fen: int = 0
    seq: int = -1
    last: bool = False
    extra: dict[str, int | bool] | None = None
    counted: bool = False


SOLD_OUT = Answer(Outcome.SOLD_OUT)
EXPIRED = Answer(Outcome.EXPIRED)
CANCELED = Answer(Outcome.CANCELED)
NOT_INVITED = Answer(Outcome.NOT_INVITED)
NOT_FOUND = Answer(Outcome.NOT_FOUND)
OPENABLE = Answer(Outcome.OPENABLE)
"""The user may open and needs no password. If they need one, the outcome is the same and `extra` says so."""


def judge(log: ClaimLog, user: str, *, token_ok: bool, now_ms: int) -> Answer:
    """Return what a grab by `user` is answered now; nothing is written.

    The object OPENABLE itself is returned if and only if an open would win without a password: `open_share` compares
    by identity.
    """
    terms = log.terms
    seq = log.winners.get(user)
    if seq is not None:
        return Answer(Outcome.ALREADY_OPENED, log.amounts[seq], seq, seq == log.terms.count - 1)
    if terms.invited is None:
        if not token_ok and user != terms.sender:
            return NOT_INVITED
    elif user not in terms.invited:
        return NOT_INVITED
    if log.closing is not None:
        return EXPIRED if log.closing.entry is Entry.EXPIRED else CANCELED
    if len(log.winners) == terms.count:
        return SOLD_OUT
    if now_ms >= terms.expires_at_ms:
        return EXPIRED
    if now_ms < terms.opens_at_ms:
        return Answer(Outcome.NOT_STARTED, extra={"opens_at_ms": terms.opens_at_ms})
    if terms.password_mac is not None:
        tries_left = LIMITS.wrong_password_tries - log.wrong_tries(user)
        # A user without a try left cannot win any more, not even by the right password.
        return _asking(Outcome.OPENABLE if tries_left > 0 else Outcome.WRONG_PASSWORD, tries_left)
    return OPENABLE


def open_share(log: ClaimLog, user: str, *, token_ok: bool, password_mac: str | None, now_ms: int) -> Answer:
    """Decide an open. For OPENED the claim is in the log; for a wrong password that counts, `counted` is set.

    Neither is durable yet: the caller writes both before it replies.
    """
    answer = judge(log, user, token_ok=token_ok, now_ms=now_ms)
    if answer is not OPENABLE:
        if answer.outcome is not Outcome.OPENABLE:
            return answer
        if password_mac != log.terms.password_mac:
            return _wrong_password(log, user, given=password_mac is not None)
    seq = log.append(user, now_ms)
    return Answer(Outcome.OPENED, log.amounts[seq], seq, seq == log.terms.count - 1)


def may_see(log: ClaimLog, user: str, *, token_ok: bool) -> bool:
    """Say whether `user` may see this envelope: as bearer of the share token, invited, sender or winner."""
    terms = log.terms
    named = terms.invited is not None and user in terms.invited
    return token_ok or named or user == terms.sender or user in log.winners


def _wrong_password(log: ClaimLog, user: str, *, given: bool) -> Answer:
    """Count a wrong password. A request without any password costs no try."""
    tries = log.count_wrong_try(user) if given else log.wrong_tries(user)
    return _asking(Outcome.WRONG_PASSWORD, LIMITS.wrong_password_tries - tries, counted=given)


def _asking(outcome: Outcome, tries_left: int, *, counted: bool = False) -> Answer:
    """Return the answer of an envelope with a password to one who has not given the right one."""
    return Answer(outcome, extra={"password_required": True, "tries_left": tries_left}, counted=counted)
