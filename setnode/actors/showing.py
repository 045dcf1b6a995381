"""How an actor shows its envelope: a detail, a frame for watchers, or whether it is final. Nothing here changes it."""

from collections.abc import Callable

from envelope.claim_log import ClaimLog
from envelope.decide import may_see
from errors import Unavailable
from setnode.actors.access import not_invited
from setnode.actors.request import Action, Request
from setnode.views.claims_json import ClaimsJson
from setnode.views.envelope_json import as_json, detail_view, is_known, version_of
from setnode.views.live_json import live_frame


def show(log: ClaimLog | None, request: Request, now_ms: int, claims_json: Callable[[ClaimLog], ClaimsJson]) -> None:
    """Reply with the envelope's state if the user may see it; to EXPIRE only whether it is final.

    `claims_json` returns the committed claims of the log as JSON; it is called only where they are shown. A detail or a
    frame that cannot be made fails this request alone.
    """
    if log is not None and request.action is Action.EXPIRE:
        request.show({"final": log.final})
    elif log is None:
        request.fail(Unavailable("envelope_unavailable", "the envelope is being read; try again"))
    elif not may_see(log, request.user, token_ok=request.token_ok):
        request.fail(not_invited())
    else:
        try:
            shown = _shown(log, request, now_ms, claims_json)
        except Exception as error:  # noqa: BLE001 - whatever it was, opens of this envelope go on
            # The caller logs it, with its traceback.
            request.caller.fail(request.number, error)
        else:
            request.show(*shown)


def _shown(
    log: ClaimLog, request: Request, now_ms: int, claims_json: Callable[[ClaimLog], ClaimsJson]
) -> tuple[object, ...]:
    """Return the values of the reply: a frame with its version and count, or a detail with what names it.

    A detail that the caller has already (`If-None-Match`) is None, and is not made.
    """
    page = request.page
    if page.live:
        return live_frame(log, now_ms, lambda: claims_json(log).best)
    version = version_of(log, request.user, now_ms, page)
    known = page.known and is_known(version, page)
    detail = None if known else as_json(detail_view(log, request.user, now_ms, claims_json(log), page))
    return detail, request.user == log.terms.sender, version
