"""The table of problems: complete, consistent, and the only place that decides a status."""

import json
import re
from http import HTTPStatus
from pathlib import Path

import pytest

from envelope.outcomes import Outcome
from errors import HongbaoError, InvariantBroken, Refused, Unavailable
from gateway.problem_answers import problem_answer
from gateway.problems import ADVICE, INSIDE, PROBLEMS, STATUS_OF, WITH_RETRY_AFTER, Retry, problem_of

ROOT = Path(__file__).resolve().parents[3]
ROOMS = ("envelope", "sharding", "wire", "setnode", "wallet", "gateway", "runtime")
# Raised where no request is: at start, in commands, in files read by a person.
ELSEWHERE = {
    "settings_invalid", "topology_invalid", "topology_of_later_release",
    "malformed_document", "unknown_set", "unknown_server", "last_set",
    "sandbox_clock_missing", "other_sets", "tls_files_invalid", "port_taken", "port_forbidden", "host_invalid",
}  # fmt: skip


def raised_codes():
    pattern = re.compile(r"(?:Refused|Unavailable|HongbaoError)\(\s*\"([a-z_]+)\"")
    sources = [path for room in ROOMS for path in (ROOT / room).rglob("*.py")]
    return {code for path in sources for code in pattern.findall(path.read_text())} - ELSEWHERE


def test_every_code_that_can_be_raised_has_a_row():
    """Whatever a room refuses, the table knows what it is over HTTP."""
    codes = raised_codes()
    assert len(codes) > 40
    assert codes - PROBLEMS.keys() - INSIDE == set()
    assert codes >= INSIDE, "a code that nothing raises any more"


@pytest.mark.parametrize(("code", "row"), PROBLEMS.items())
def test_rows_are_consistent(code, row):
    """A row has an error status and a title; a 5xx may be tried again, and of the rest only what says why below."""
    assert re.fullmatch(r"[a-z_]+", code)
    assert 400 <= row.status < 600
    assert HTTPStatus(row.status)
    assert row.title
    # 429: the same request succeeds later, by definition.
    later = row.status == HTTPStatus.TOO_MANY_REQUESTS
    if code not in {"invariant_broken", "insufficient_funds", "body_timeout"} and not later:
        assert (row.retry is not Retry.NEVER) == (row.status >= 500)


def test_words_of_advice():
    """Each word is explained; who lacks money may come again once he has it, at no hour that we could name."""
    assert set(ADVICE) == set(Retry)
    assert PROBLEMS["insufficient_funds"].retry is Retry.CHANGED
    assert Retry.CHANGED not in WITH_RETRY_AFTER


def test_outcomes_are_answers():
    """Every outcome has a status; only not_found and busy are problems."""
    assert {one for one in Outcome if STATUS_OF[one] != 200} == {Outcome.NOT_FOUND, Outcome.BUSY}
    assert (STATUS_OF[Outcome.NOT_FOUND], STATUS_OF[Outcome.BUSY]) == (404, 503)


@pytest.mark.parametrize(
    ("error", "status", "retry"),
    [
        (Refused("insufficient_funds", ""), 409, Retry.CHANGED),
        (Refused("idempotency_key_reused", ""), 422, Retry.NEVER),
        (Refused("not_in_the_table", ""), 400, Retry.NEVER),
        (Unavailable("busy", ""), 503, Retry.LATER),
        (Unavailable("not_in_the_table", ""), 503, Retry.LATER),
        (Unavailable("not_in_the_table", "", outcome_known=False), 504, Retry.REPEAT),
        (Unavailable("outcome_unknown", "", outcome_known=False), 504, Retry.REPEAT),
        (Unavailable("database_unavailable", "", outcome_known=False), 504, Retry.REPEAT),
        (Unavailable("internal_error", "", outcome_known=False), 500, Retry.REPEAT),
        (InvariantBroken("x", ""), 500, Retry.NEVER),
        (HongbaoError("internal_error", ""), 500, Retry.REPEAT),
    ],
)
def test_errors_find_their_row(error, status, retry):
    """Known codes by the table, others by class, and an unknown outcome is never told as a failure."""
    row = problem_of(error)
    assert (row.status, row.retry) == (status, retry)


def test_our_inside_is_not_told():
    """What is our own fault speaks of no server and no query."""
    assert all(row.detail for row in PROBLEMS.values() if row.status == 500)


@pytest.mark.parametrize("code", sorted(INSIDE))
def test_words_between_our_parts_are_not_told(code):
    """What one part says of another's request is `internal_error` for clients: code, title, detail and anchor."""
    told = json.loads(problem_answer(Refused(code, "seed 12 of db_07"), b"r1", "createEnvelope").body)
    assert (told["status"], told["code"], told["type"]) == (500, "internal_error", "/docs#internal_error")
    assert "seed" not in json.dumps(told)
