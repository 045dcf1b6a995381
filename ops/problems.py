"""Codes of the operators' API: the status of each. What is not here is 422 if it was refused, 503 if a part is away."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from errors import HongbaoError, InvariantBroken, Refused

STATUS: Final[Mapping[str, HTTPStatus]] = {
    "key_missing": HTTPStatus.UNAUTHORIZED,
    "key_wrong": HTTPStatus.UNAUTHORIZED,
    "session_ended": HTTPStatus.UNAUTHORIZED,
    "operator_key_needed": HTTPStatus.FORBIDDEN,
    "foreign_page": HTTPStatus.FORBIDDEN,
    "not_found": HTTPStatus.NOT_FOUND,
    "unknown_envelope": HTTPStatus.NOT_FOUND,
    "method_not_allowed": HTTPStatus.METHOD_NOT_ALLOWED,
    "body_too_large": HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    "json_needed": HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    "malformed_request": HTTPStatus.BAD_REQUEST,
    "audit_under_way": HTTPStatus.CONFLICT,
    "action_id_reused": HTTPStatus.CONFLICT,
    "internal_error": HTTPStatus.INTERNAL_SERVER_ERROR,
}


def status_of(error: HongbaoError) -> HTTPStatus:
    """Return the status of an error."""
    if error.code in STATUS:
        return STATUS[error.code]
    if isinstance(error, InvariantBroken):
        return HTTPStatus.INTERNAL_SERVER_ERROR
    return HTTPStatus.UNPROCESSABLE_ENTITY if isinstance(error, Refused) else HTTPStatus.SERVICE_UNAVAILABLE


def problem(error: HongbaoError) -> dict[str, Any]:
    """Return the body of an answer: problem+json (RFC 9457) with a stable code."""
    status = status_of(error)
    return {
        "type": "about:blank",
        "title": status.phrase,
        "status": int(status),
        "code": error.code,
        "detail": error.detail,
    }
