"""Who may see an envelope and who may cancel it: the same refusals from an actor and from the archive."""

from envelope.claim_log import ClaimLog
from envelope.decide import may_see
from envelope.errors import Refused
from setnode.actors.request import Request


def hidden() -> Refused:
    """Return what a stranger hears of an envelope."""
    return Refused("not_invited", "this envelope is shown to its sender, to those it names and to bearers of its token")


def cannot_cancel(log: ClaimLog, request: Request) -> Refused | None:
    """Return why this request closes nothing and is shown nothing; None where it may, or finds it closed.

    The log does not say who closed an envelope, so the answer must not depend on it either: whoever did and whether
    by cancel or by the clock, its sender is shown the same detail, now and at every repeat. Only where nothing was
    left to give back there is nothing to show: sold out stays `already_final`.
    """
    if request.user != log.terms.sender:
        seen = may_see(log, request.user, token_ok=request.token_ok)
        return Refused("not_the_sender", "only its sender can cancel an envelope") if seen else hidden()
    if log.closing is None and log.sold_out:
        return Refused("already_final", "the envelope is sold out; there is nothing left to cancel")
    return None
