"""What the gateway refuses, as exceptions: one class for each thing that a caller does about it.

    try:
        envelope = await alice.create(total_fen=888, count=3)
    except InsufficientFunds:
        ...                                  # the wallet must hold more first
    except TryLater as busy:
        ...                                  # nothing was done; again in busy.retry_after_s seconds
    except OutcomeUnknown as unknown:
        ...                                  # it may have been done: repeat it with unknown.idempotency_key

A call has been repeated already when TryLater or OutcomeUnknown is raised, as often as its patience allows
(`client.retries`). Which codes there are is in the API's document; `code` never changes, `detail` is for people.
"""

from typing import Final

import msgspec


class ApiError(Exception):
    """The gateway did not do what was asked.

    `code` is stable; `status` is that of HTTP, 0 if no answer came; `detail` is a sentence; `request_id` names the
    request in the logs of the operators.
    """

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        status: int = 0,
        retry_after_s: float = 0.0,
        request_id: str = "",
        envelope: str = "",
    ) -> None:
        super().__init__(f"{code}: {detail}" if detail else code)
        self.code = code
        self.detail = detail
        self.status = status
        self.retry_after_s = retry_after_s
        """How long the gateway asks to wait, in seconds; 0 if it does not say."""
        self.request_id = request_id
        self.idempotency_key = ""
        """Of a create: the key to repeat it with, so that there is no second envelope."""
        self.envelope = envelope
        """Of a stream of several envelopes: which one is meant, as it was named."""


class InvalidRequest(ApiError):
    """The request is wrong in itself: a field, a parameter, a header."""


class NotSignedIn(ApiError):
    """The bearer token is missing, not valid or has expired."""


class NotAllowed(ApiError):
    """This user may not: not invited, not the sender."""


class NotFound(ApiError):
    """There is no such envelope, link or path."""


class Conflict(ApiError):
    """Things do not stand so that it could be done: the envelope is final, its business day is closed."""


class InsufficientFunds(Conflict):
    """The sender's wallet does not hold as much. The same request succeeds once it does."""


class Unchanged(ApiError):
    """An envelope is as it was when the version was given that the call names: there is nothing to read."""


class Frozen(ApiError):
    """The envelope's records do not add up, so nothing is done with it until an operator has looked."""


class TryLater(ApiError):
    """Nothing was done, for lack of room or because a part is away: try again in `retry_after_s` seconds."""


class OutcomeUnknown(ApiError):
    """It may have been done. Repeat exactly this request, a create with `idempotency_key`, to hear what happened."""


class Unreachable(OutcomeUnknown):
    """No attempt had a connection to the gateway, so nothing was done. The address may be wrong.

    It is an OutcomeUnknown for callers who repeat in either case.
    """


class _Problem(msgspec.Struct, frozen=True):
    """The members of a problem (RFC 9457) that matter here."""

    code: str = ""
    detail: str = ""
    title: str = ""
    retry: str = ""
    request_id: str = ""


NOT_THE_APIS: Final = (msgspec.MsgspecError, ValueError, RecursionError)
"""What reading raises of bytes that are none of the API's: no JSON, no UTF-8, nested without end."""
_decode: Final = msgspec.json.Decoder(_Problem).decode
_BY_CODE: Final[dict[str, type[ApiError]]] = {"insufficient_funds": InsufficientFunds, "invariant_broken": Frozen}
_BY_ADVICE: Final[dict[str, type[ApiError]]] = {"later": TryLater, "repeat": OutcomeUnknown}
_BY_STATUS: Final[dict[int, type[ApiError]]] = {
    304: Unchanged,
    401: NotSignedIn,
    403: NotAllowed,
    404: NotFound,
    409: Conflict,
    # Of a proxy, whose answers say nothing else: it may have passed the request on before it lost the gateway.
    408: OutcomeUnknown,
    425: TryLater,
    429: TryLater,
    499: OutcomeUnknown,
}
_NO_GATEWAY: Final = "this is no answer of a gateway, but one of a proxy or another server; check the address"
_OUR_FAULT: Final = 500
"""From here on a proxy's answer leaves open whether the gateway had the request."""


def error_of(status: int, body: bytes, retry_after: str | None, request_id: str = "") -> ApiError:
    """Return the error that an answer of this status stands for; `retry_after` is the header's value.

    An answer that is no problem of the gateway, but a proxy's, has the code `http_STATUS`.
    """
    try:
        problem = _decode(body)
    except NOT_THE_APIS:
        problem = _Problem()
    kind = _BY_CODE.get(problem.code) or _BY_ADVICE.get(problem.retry) or _BY_STATUS.get(status)
    if kind is None:
        kind = OutcomeUnknown if status >= _OUR_FAULT and problem.retry != "never" else InvalidRequest
    return kind(
        problem.code or f"http_{status}",
        problem.detail or problem.title or ("" if problem.code else _NO_GATEWAY),
        status=status,
        retry_after_s=_seconds(retry_after),
        request_id=problem.request_id or request_id,
    )


def no_answer(error: BaseException) -> OutcomeUnknown:
    """Return the error of a call whose connection gave no answer."""
    return OutcomeUnknown("no_answer", str(error) or type(error).__name__)


def unreachable(error: BaseException, url: str) -> Unreachable:
    """Return the error of an attempt that had no connection; the code is that of any attempt without an answer."""
    said = f"nothing was done, as there was no connection to {url} ({error}); does the gateway run at this address?"
    return Unreachable("no_answer", said)


def unreadable(error: BaseException) -> OutcomeUnknown:
    """Return the error of a call that was answered well, with something that is not the API's: a proxy's page."""
    return OutcomeUnknown("unreadable_answer", f"{_NO_GATEWAY} ({error})")


def _seconds(text: str | None) -> float:
    # The gateway writes seconds; a proxy may write a date, which is of no use to a clock that may be wrong.
    return float(text) if text is not None and text.isdecimal() else 0.0
