"""An error as the client gets it: problem+json (RFC 9457) by the table in `gateway.problems`."""

import math
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any, Final

from errors import HongbaoError, Unavailable
from gateway.http.answer import PROBLEM, Answer, encode_json
from gateway.identity.token_faults import NOT_YET
from gateway.problems import WITH_RETRY_AFTER, problem_of, public_code
from gateway.titles import CHINESE, ENGLISH, language_of, title_of

_CLOSING_STATUSES: Final = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.REQUEST_ENTITY_TOO_LARGE})
_CLOSING_CODES: Final = frozenset({"malformed_http"})
"""After these statuses and codes the rest of the request cannot be read or is not wanted: the connection ends."""
_IN_CHINESE: Final = b"Content-Language: zh\r\n"
_NO_TOKEN: Final = frozenset({"token_missing", "metrics_key_missing"})
_BY_CLOCK: Final = frozenset({"token_expired", "opens_at_out_of_range"})
_OUTCOMES: Final = frozenset({"busy", "not_found"})
"""Outcomes that are problems over HTTP; open and grab repeat them in `result`."""
_OUTCOME_OPERATIONS: Final = frozenset({"openEnvelope", "grabEnvelope"})


def problem_answer(
    error: HongbaoError, request_id: bytes, operation: str, methods: Sequence[str] = (), accepted: str = ""
) -> Answer:
    """Return problem+json for an error of an operation; `methods` are those of the path, for the header Allow.

    `accepted` is the request's Accept-Language, by which the title is chosen.
    Where the row has a `detail`, it replaces the error's own, which the caller logs with its code if the status is 500.
    """
    row, code = problem_of(error), public_code(error)
    language = language_of(accepted) if accepted else ENGLISH
    body: dict[str, Any] = {
        "type": f"/docs#{code}",
        "title": title_of(code, row.title, language),
        "status": row.status,
        "detail": row.detail or error.detail,
        "code": code,
        "retry": row.retry.value,
        "request_id": request_id.decode(),
    }
    headers = _IN_CHINESE if language == CHINESE else b""
    if error.code in _OUTCOMES and operation in _OUTCOME_OPERATIONS:
        body["result"] = error.code
    if row.retry in WITH_RETRY_AFTER:
        seconds = error.retry_after_s if isinstance(error, Unavailable) else 1.0
        headers += b"Retry-After: %d\r\n" % max(1, math.ceil(seconds))
    if row.status == HTTPStatus.UNAUTHORIZED:
        headers += _challenge(error.code)
    if error.code == "method_not_allowed":
        headers += f"Allow: {', '.join(methods)}\r\n".encode()
    close = row.status in _CLOSING_STATUSES or error.code in _CLOSING_CODES
    return Answer(row.status, encode_json(body), PROBLEM, headers=headers, close=close)


def clock_note(error: HongbaoError, sandbox_now: Callable[[], str]) -> str:
    """Return what is added in a sandbox to a refusal that goes by the clock; "" for every other one.

    Whoever makes a token or an `opens_at` by their machine's clock cannot tell from the refusal alone what is wrong.
    """
    if error.code not in _BY_CLOCK and not error.detail.endswith(NOT_YET):
        return ""
    return f". This sandbox goes by a clock of its own, which is at {sandbox_now()} (`sandbox_now` of /readyz)"


def _challenge(code: str) -> bytes:
    error = b"" if code in _NO_TOKEN else b', error="invalid_token"'
    return b'WWW-Authenticate: Bearer realm="hongbao"%b\r\n' % error
