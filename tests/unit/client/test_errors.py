"""What an answer that refuses becomes."""

import json

import pytest

from client import (
    ApiError,
    Conflict,
    Frozen,
    InsufficientFunds,
    InvalidRequest,
    NotAllowed,
    NotFound,
    NotSignedIn,
    OutcomeUnknown,
    TryLater,
    Unchanged,
)
from client.errors import error_of
from gateway.problems import PROBLEMS, Retry


def told(code: str) -> bytes:
    row = PROBLEMS[code]
    return json.dumps({"code": code, "detail": "a sentence", "retry": row.retry, "request_id": "r-1"}).encode()


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("wrong_type", InvalidRequest),
        ("token_expired", NotSignedIn),
        ("not_invited", NotAllowed),
        ("not_found", NotFound),
        ("already_final", Conflict),
        ("insufficient_funds", InsufficientFunds),
        ("invariant_broken", Frozen),
        ("busy", TryLater),
        ("too_soon", TryLater),
        ("body_timeout", TryLater),
        ("outcome_unknown", OutcomeUnknown),
        ("internal_error", OutcomeUnknown),
    ],
)
def test_each_code_is_a_class(code: str, kind: type[ApiError]) -> None:
    """By what one does about it; the words are the gateway's own."""
    error = error_of(PROBLEMS[code].status, told(code), "3")
    assert type(error) is kind
    assert (error.code, error.detail, error.status) == (code, "a sentence", PROBLEMS[code].status)
    assert (error.retry_after_s, error.request_id) == (3.0, "r-1")


def test_no_code_is_repeated_that_must_not_be() -> None:
    """For every code that there is, the class agrees with the gateway's advice."""
    for code, row in PROBLEMS.items():
        error = error_of(row.status, told(code), None)
        assert isinstance(error, TryLater) == (row.retry is Retry.LATER), code
        assert isinstance(error, OutcomeUnknown) == (row.retry is Retry.REPEAT), code


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (304, Unchanged),
        (404, NotFound),
        (413, InvalidRequest),
        (408, OutcomeUnknown),
        (429, TryLater),
        (499, OutcomeUnknown),
        (500, OutcomeUnknown),
        (502, OutcomeUnknown),
        (503, OutcomeUnknown),
        (504, OutcomeUnknown),
    ],
)
def test_a_proxy_answers_in_its_own_words(status: int, kind: type[ApiError]) -> None:
    """No JSON, or JSON of another kind: the status alone counts, and a date as Retry-After does not."""
    for body in (b"<html>Bad gateway</html>", b"[1]", b"", b'{"code": 7}', b"\xff"):
        error = error_of(status, body, "Wed, 21 Oct 2026 07:28:00 GMT")
        assert type(error) is kind
        assert (error.code, error.retry_after_s) == (f"http_{status}", 0.0)
