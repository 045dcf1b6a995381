"""Routes, IDs of days, and outcomes as JSON."""

import json
from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envelope.outcomes import Outcome
from errors import Refused, Unavailable
from gateway.handlers.outcomes import NOT_INVITED_DETAIL, outcome_answer
from gateway.parsing.calendar import Calendar
from gateway.routes import METHODS, ROUTES, resolve
from sharding.ids import first_id_at, make_id
from tests.clock import ManualClock


@pytest.mark.parametrize("route", ROUTES)
def test_every_route_resolves(route):
    """Each route is found by its path, with the ID as it was written."""
    template, text = resolve(route.template.replace("{id}", "2611211234567890007"))
    assert template == route.template
    assert METHODS[template][route.method] == route.name
    assert text == ("2611211234567890007" if "{id}" in route.template else "")


@pytest.mark.parametrize(
    "path",
    [
        *("", "/", "*", "/v1", "/v1/", "/v1/envelopes/", "/v1/envelopes/1/", "/v1/envelopes/1/steal"),
        *("/v1/envelopes/1/open/", "/V1/envelopes", "/v1/me", "//v1/envelopes", "/v1/envelopes/1/open/x", "/docs/"),
        *("/v1/envelopes//open", "/v1/envelopes/1//"),
    ],
)
def test_other_paths_do_not(path):
    """A path is one of ours to the letter."""
    assert resolve(path) is None


def test_escapes_in_an_id_are_undone():
    """An escaped ID is the ID; an escaped slash ends nothing; bytes that are no UTF-8 are no error."""
    assert resolve("/v1/envelopes/%32611211234567890007/open")[1] == "2611211234567890007"
    assert resolve("/v1/envelopes/1%2Fopen/grab")[1] == "1/open"
    assert resolve("/v1/envelopes/%ff%00/open")[1] == "\ufffd\0"


def test_the_calendar_turns_with_the_business_day():
    """IDs of tomorrow are refused until a minute before midnight in the business zone, and taken ever after."""
    clock, zone = ManualClock(datetime(2026, 11, 21, 15, 58, 59, tzinfo=UTC)), ZoneInfo("Asia/Shanghai")
    calendar, tomorrow = Calendar(clock), make_id(date(2026, 11, 22), 0, 0)
    calendar.check(make_id(date(2026, 11, 21), 10**10 - 1, 999), zone)
    with pytest.raises(Refused, match="future_envelope_id"):
        calendar.check(tomorrow, zone)
    clock.advance(seconds=1)
    calendar.check(tomorrow, zone)
    with pytest.raises(Refused, match="future_envelope_id"):
        calendar.check(make_id(date(2026, 11, 23), 0, 0), zone)


INDEX = {outcome: number for number, outcome in enumerate(Outcome)}


@pytest.mark.parametrize("outcome", [one for one in Outcome if one not in (Outcome.NOT_FOUND, Outcome.BUSY)])
@pytest.mark.parametrize("last", [True, False])
def test_outcomes_as_json(outcome, last):
    """The bytes joined by hand are what a JSON encoder would make; amounts only where a share is held."""
    bare = json.loads(outcome_answer([INDEX[outcome], 0, -1, False, None]).body)
    detail = {"detail": NOT_INVITED_DETAIL} if outcome is Outcome.NOT_INVITED else {}
    assert bare == {"result": outcome.value, **detail}
    held = json.loads(outcome_answer([INDEX[outcome], 123, 0, last, None]).body)
    assert held == {"result": outcome.value, "amount_fen": 123, "seq": 0, "last": last}


def test_extras_are_flattened():
    """What comes beside the outcome stands beside the result; instants are written for people."""
    answer = outcome_answer([INDEX[Outcome.NOT_STARTED], 0, -1, False, {"opens_at_ms": 1_795_233_600_000}])
    assert json.loads(answer.body) == {"result": "not_started", "opens_at": "2026-11-21T04:00:00.000Z"}
    answer = outcome_answer([INDEX[Outcome.OPENABLE], 0, -1, False, {"password_required": True, "tries_left": 5}])
    assert json.loads(answer.body) == {"result": "openable", "password_required": True, "tries_left": 5}


def test_outcomes_that_are_problems():
    """not_found and busy are told as problems."""
    with pytest.raises(Refused, match="not_found"):
        outcome_answer([INDEX[Outcome.NOT_FOUND], 0, -1, False, None])
    with pytest.raises(Unavailable, match="busy"):
        outcome_answer([INDEX[Outcome.BUSY], 0, -1, False, None])


@given(st.lists(st.integers(0, 40 * 86_400_000), min_size=2, max_size=8))
@pytest.mark.parametrize("zone", ["Asia/Shanghai", "America/Sao_Paulo", "Europe/London", "Pacific/Apia"])
def test_the_second_is_remembered_only_as_long_as_it_lasts(zone, steps_ms):
    """Whenever it is asked, also across clock changes and back again: day and second are those of the instant."""
    here = ZoneInfo(zone)
    clock = ManualClock(datetime(2018, 10, 20, tzinfo=UTC))
    calendar = Calendar(clock)
    for step_ms in steps_ms:
        clock.advance(milliseconds=step_ms)
        assert calendar.first_id(here, clock.now_ms()) == first_id_at(clock.now(), here)
        clock.advance(milliseconds=-step_ms // 2)
        assert calendar.first_id(here, clock.now_ms()) == first_id_at(clock.now(), here)
