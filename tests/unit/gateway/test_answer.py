"""Answers as bytes: the Date that stands in them."""

from types import SimpleNamespace

import pytest
from aiohttp.http import HttpVersion11
from aiohttp.streams import EMPTY_PAYLOAD
from multidict import CIMultiDict, CIMultiDictProxy

from gateway.http import answer as module
from gateway.http.answer import Answer
from gateway.http.request import Request


class Clocks:
    """The wall clock and the one that nobody sets; `reading_takes_s` is how long a look at the wall takes."""

    def __init__(self, wall_s: float) -> None:
        self.wall_s, self.steady_s, self.reading_takes_s = wall_s, 1_000.0, 0.0

    def pass_by(self, seconds: float) -> None:
        self.wall_s += seconds
        self.steady_s += seconds

    def time(self) -> float:
        now = self.wall_s
        self.pass_by(self.reading_takes_s)
        return now


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    clocks = Clocks(1_795_000_000.25)
    monkeypatch.setattr(module, "time", clocks.time)
    monkeypatch.setattr(module, "monotonic", lambda: clocks.steady_s)
    monkeypatch.setattr(module, "_heads", module._Heads())
    return clocks


def date_now() -> str:
    head, version = CIMultiDictProxy(CIMultiDict()), SimpleNamespace(version=HttpVersion11)
    request = Request("GET", "/", head, EMPTY_PAYLOAD, True, None, version)
    lines = Answer(200, b"{}").encode(request, keep_alive=True).split(b"\r\n")
    (date,) = [line for line in lines if line.startswith(b"Date: ")]
    return date.decode().removeprefix("Date: ")


def test_the_date_goes_on_with_the_second(clocks: Clocks) -> None:
    """It is of the second in which the answer is made, begun anew when that is over."""
    assert date_now() == "Wed, 18 Nov 2026 11:06:40 GMT"
    clocks.pass_by(0.74)
    assert date_now() == "Wed, 18 Nov 2026 11:06:40 GMT"
    clocks.pass_by(0.02)
    assert date_now() == "Wed, 18 Nov 2026 11:06:41 GMT"
    clocks.pass_by(3_600)
    assert date_now() == "Wed, 18 Nov 2026 12:06:41 GMT"


def test_a_wall_clock_that_is_set_back_is_followed(clocks: Clocks) -> None:
    """Within a second, whichever way it was set."""
    date_now()
    clocks.wall_s -= 3_600
    clocks.pass_by(1.0)
    assert date_now() == "Wed, 18 Nov 2026 10:06:41 GMT"


def test_a_process_that_stood_still_says_no_old_date_for_long(clocks: Clocks) -> None:
    """Between two looks at clocks anything may pass: the next answer asks again."""
    clocks.reading_takes_s = 5.0
    date_now()
    clocks.reading_takes_s = 0.0
    assert date_now() == "Wed, 18 Nov 2026 11:06:45 GMT"
