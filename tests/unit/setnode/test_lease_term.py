"""How long a lease serves one transaction after the other."""

import asyncio

import pytest

from setnode.commit.lease_term import LeaseTerm
from setnode.limits import LEASE_TERM_S, LONG_LEASE_TERM_S

BEGAN = 100.0


class Cap:
    """Answers whether there is room, or not at all when it has no answers left."""

    def __init__(self, *answers: bool) -> None:
        self.asked: list[asyncio.Future[bool]] = []
        self._answers = list(answers)

    def __call__(self) -> "asyncio.Future[bool]":
        told: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        if self._answers:
            told.set_result(self._answers.pop(0))
        self.asked.append(told)
        return told


async def test_nothing_is_asked_in_the_first_half() -> None:
    """A short piece of work costs no look at the cap."""
    cap = Cap()
    term = LeaseTerm(cap, BEGAN, LONG_LEASE_TERM_S)
    assert not term.over(BEGAN)
    assert not term.over(BEGAN + 0.4 * LEASE_TERM_S)
    assert not cap.asked


@pytest.mark.parametrize(("room", "over"), [(True, False), (False, True)])
async def test_a_turn_ends_where_somebody_may_wait(room: bool, over: bool) -> None:
    """Asked once, half a turn ahead; without room the turn is over in time, with room it goes on."""
    cap = Cap(room)
    term = LeaseTerm(cap, BEGAN, LONG_LEASE_TERM_S)
    assert not term.over(BEGAN + 0.6 * LEASE_TERM_S)
    assert not term.over(BEGAN + 0.9 * LEASE_TERM_S)
    assert term.over(BEGAN + LEASE_TERM_S) is over
    assert len(cap.asked) == 1


async def test_without_an_answer_in_time_it_is_over() -> None:
    """Nobody waits for memcached: the lease is released as it always was."""
    cap = Cap()
    term = LeaseTerm(cap, BEGAN, LONG_LEASE_TERM_S)
    assert not term.over(BEGAN + 0.6 * LEASE_TERM_S)
    assert term.over(BEGAN + LEASE_TERM_S)
    assert term.over(BEGAN + 2 * LEASE_TERM_S)


async def test_each_turn_is_asked_for_anew_and_none_lasts_for_ever() -> None:
    """Room now says nothing of the next turn, and after the long one the lease is released with all room there is."""
    cap = Cap(*[True] * 100)
    term, now = LeaseTerm(cap, BEGAN, LONG_LEASE_TERM_S), BEGAN
    while not term.over(now):
        now += LEASE_TERM_S / 10
    assert now - BEGAN == pytest.approx(LONG_LEASE_TERM_S, abs=LEASE_TERM_S)
    assert len(cap.asked) == pytest.approx(LONG_LEASE_TERM_S / LEASE_TERM_S, abs=1)
    cap = Cap(True, False)
    term, now = LeaseTerm(cap, BEGAN, LONG_LEASE_TERM_S), BEGAN
    while not term.over(now):
        now += LEASE_TERM_S / 10
    assert now - BEGAN == pytest.approx(2 * LEASE_TERM_S, abs=0.2 * LEASE_TERM_S)


async def test_a_short_turn_asks_nobody() -> None:
    """The second connection helps out for a moment: whatever room there is, its turn is over in time."""
    cap = Cap(True)
    term = LeaseTerm(cap, BEGAN, LEASE_TERM_S)
    assert not term.over(BEGAN + 0.4 * LEASE_TERM_S)
    assert not term.over(BEGAN + 0.9 * LEASE_TERM_S)
    assert term.over(BEGAN + LEASE_TERM_S)
    assert not cap.asked
