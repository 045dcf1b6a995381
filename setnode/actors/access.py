"""Who may see an envelope and who may cancel it: the same refusals for envelopes in memory and on cold days."""

from envelope.claim_log import ClaimLog
from envelope.decide import may_see
from errors import Refused
from setnode.actors.request import Request


def not_invited() -> Refused:
    """Return the reply to a user who may not see the envelope."""
    return Refused("not_invited", "this envelope is shown to its sender, to those it names and to bearers of its token")


def cancel_refusal(log: ClaimLog, request: Request) -> Refused | None:
    """Return why this CANCEL is refused; None if it closes the envelope or finds it closed.

    Every CANCEL by the sender of a closed envelope is shown the same detail, whether a cancel or the clock closed it:
    the log does not say who did, so the reply must not depend on it. An envelope that sold out had nothing left to
    return and stays `already_final`.
    """
    if request.user != log.terms.sender:
        seen = may_see(log, request.user, token_ok=request.token_ok)
        return Refused("not_the_sender", "only its sender can cancel an envelope") if seen else not_invited()
    if log.closing is None and log.sold_out:
        return Refused("already_final", "the envelope is sold out; there is nothing left to cancel")
    return None
