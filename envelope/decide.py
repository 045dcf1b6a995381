"""The ladder of guards: what one request hears, given the log and the hour. Pure; nothing here waits.

`judge` answers grab; `open_share` answers open and appends to the log when the user wins. The order of the rungs is
`outcomes.PRECEDENCE`, which a test holds.
"""

import msgspec

from envelope.claim_log import ClaimLog
from envelope.limits import LIMITS
from envelope.outcomes import Entry, Outcome


class Answer(msgspec.Struct, frozen=True, gc=False):
    """What one request hears. `seq` -1 and `amount_fen` 0 where the user holds no share."""

    outcome: Outcome
    amount_fen: int = 0
    seq: int = -1
    last: bool = False
    extra: dict[str, int | bool] | None = None


SOLD_OUT = Answer(Outcome.SOLD_OUT)
EXPIRED = Answer(Outcome.EXPIRED)
CANCELED = Answer(Outcome.CANCELED)
NOT_INVITED = Answer(Outcome.NOT_INVITED)
NOT_FOUND = Answer(Outcome.NOT_FOUND)
OPENABLE = Answer(Outcome.OPENABLE)
"""Nothing stands in the way. Where a password does, the outcome is the same and the answer another."""

_OPENED = Outcome.OPENED
"""By a name of its own: up to Python 3.11 a look through the class costs 60 ns."""


def judge(log: ClaimLog, user: str, *, token_ok: bool, now_ms: int) -> Answer:
    """Say what `user` would hear now; of outcome OPENABLE when nothing but a password stands in the way.

    The very answer OPENABLE, by which `open_share` knows it, says that no password does either.
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
        tries_left = LIMITS.wrong_password_tries - _tries(log, user)
        return Answer(Outcome.OPENABLE, extra={"password_required": True, "tries_left": tries_left})
    return OPENABLE


def open_share(log: ClaimLog, user: str, *, token_ok: bool, password_mac: str | None, now_ms: int) -> Answer:
    """Decide an open. OPENED has appended the claim to the log; a counted wrong password says so in `extra`."""
    answer = judge(log, user, token_ok=token_ok, now_ms=now_ms)
    if answer is not OPENABLE:
        if answer.outcome is not Outcome.OPENABLE:
            return answer
        tries = _tries(log, user)
        if tries >= LIMITS.wrong_password_tries:
            return Answer(Outcome.WRONG_PASSWORD, extra={"tries_left": 0})
        if password_mac != log.terms.password_mac:
            return _wrong(log, user, tries, given=password_mac is not None)
    seq = log.append(user, now_ms)
    return Answer(_OPENED, log.amounts[seq], seq, seq == log.terms.count - 1)


def may_see(log: ClaimLog, user: str, *, token_ok: bool) -> bool:
    """Say whether `user` may know of this envelope: by share token, by name, or because he took part."""
    terms = log.terms
    named = terms.invited is not None and user in terms.invited
    return token_ok or named or user == terms.sender or user in log.winners


def _tries(log: ClaimLog, user: str) -> int:
    return 0 if log.wrong_tries is None else log.wrong_tries.get(user, 0)


def _wrong(log: ClaimLog, user: str, tries: int, *, given: bool) -> Answer:
    """Count a wrong password; none given at all costs no try."""
    if given:
        tries += 1
        if log.wrong_tries is None:
            log.wrong_tries = {}
        log.wrong_tries[user] = tries
    extra: dict[str, int | bool] = {"tries_left": LIMITS.wrong_password_tries - tries}
    if given:
        extra["counted"] = True
    return Answer(Outcome.WRONG_PASSWORD, extra=extra)
