"""How long an entry into Postgres serves one transaction after the other."""

import asyncio

import pytest

from setnode.commit.admission import Turn
from setnode.limits import LONG_TURN_S, TURN_S

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
    turn = Turn(cap, BEGAN, LONG_TURN_S)
    assert not turn.over(BEGAN)
    assert not turn.over(BEGAN + 0.4 * TURN_S)
    assert not cap.asked


@pytest.mark.parametrize(("room", "over"), [(True, False), (False, True)])
async def test_a_turn_ends_where_somebody_may_wait(room: bool, over: bool) -> None:
    """Asked once, half a turn ahead; without room the turn is over in time, with room it goes on."""
    cap = Cap(room)
    turn = Turn(cap, BEGAN, LONG_TURN_S)
    assert not turn.over(BEGAN + 0.6 * TURN_S)
    assert not turn.over(BEGAN + 0.9 * TURN_S)
    assert turn.over(BEGAN + TURN_S) is over
    assert len(cap.asked) == 1


async def test_without_an_answer_in_time_it_is_over() -> None:
    """Nobody waits for memcached: the entry is given back as it always was."""
    cap = Cap()
    turn = Turn(cap, BEGAN, LONG_TURN_S)
    assert not turn.over(BEGAN + 0.6 * TURN_S)
    assert turn.over(BEGAN + TURN_S)
    assert turn.over(BEGAN + 2 * TURN_S)


async def test_each_turn_is_asked_for_anew_and_none_lasts_for_ever() -> None:
    """Room now says nothing of the next turn, and after the long one the entry goes back with all room there is."""
    cap = Cap(*[True] * 100)
    turn, now = Turn(cap, BEGAN, LONG_TURN_S), BEGAN
    while not turn.over(now):
        now += TURN_S / 10
    assert now - BEGAN == pytest.approx(LONG_TURN_S, abs=TURN_S)
    assert len(cap.asked) == pytest.approx(LONG_TURN_S / TURN_S, abs=1)
    cap = Cap(True, False)
    turn, now = Turn(cap, BEGAN, LONG_TURN_S), BEGAN
    while not turn.over(now):
        now += TURN_S / 10
    assert now - BEGAN == pytest.approx(2 * TURN_S, abs=0.2 * TURN_S)


async def test_a_short_turn_asks_nobody() -> None:
    """The second connection helps out for a moment: whatever room there is, its turn is over in time."""
    cap = Cap(True)
    turn = Turn(cap, BEGAN, TURN_S)
    assert not turn.over(BEGAN + 0.4 * TURN_S)
    assert not turn.over(BEGAN + 0.9 * TURN_S)
    assert turn.over(BEGAN + TURN_S)
    assert not cap.asked
