"""How long requests wait at a server, as it tells its callers."""

from collections.abc import Callable, Sequence

from wire.limits import BEAT_S, LOAD_S
from wire.load import Load, Silence, Waits


def waits_of(oldest: Callable[[], float], waiting: int = 10) -> Waits:
    """Return the waits of work where ten are a crowd."""
    return Waits(oldest, lambda: waiting, 10)


class Caller:
    def __init__(self) -> None:
        self.told: list[list[int]] = []

    def tell_load(self, waits_ms: Sequence[int]) -> None:
        self.told.append(list(waits_ms))


def told(load: Load) -> list[list[int]]:
    """Return what a caller is told from now on, without its first word."""
    caller = Caller()
    load.add(caller)
    assert len(caller.told) == 1
    caller.told.clear()
    return caller.told


async def test_a_server_where_nothing_waits_says_only_that_it_is_there() -> None:
    """An idle server sends a beat every BEAT_S, and one word at once when it has become idle."""
    waits = waits_of(lambda: 0.0)
    load = Load(waits)
    heard = told(load)
    rounds = round(BEAT_S / LOAD_S)
    for _ in range(rounds - 1):
        load.tell(0.0)
    assert heard == []
    load.tell(0.0)
    assert heard == [[0]]
    waits.note(0.030)
    for _ in range(rounds):
        load.tell(0.0)
    assert heard == [[0], [30], [0]]


async def test_a_caller_is_told_as_soon_as_it_is_there() -> None:
    """So that its link knows that this server sends beats, and what it missed."""
    waits, caller = waits_of(lambda: 0.0), Caller()
    load = Load(waits)
    waits.note(0.030)
    load.tell(0.0)
    load.add(caller)
    assert caller.told == [[30]]


def test_the_mean_of_what_waited_or_the_one_in_front() -> None:
    """Where nothing has begun for a while only the one in front knows."""
    oldest = [0.0]
    waits = waits_of(lambda: oldest[0])
    for waited in (0.010, 0.020, 0.030):
        waits.note(waited)
    assert waits.take() == 0.020
    assert waits.take() == 0.0
    oldest[0] = 1.5
    assert waits.take() == 1.5


async def test_a_late_loop_counts_for_every_kind() -> None:
    """What is in the sockets meanwhile waits unseen."""
    load = Load(waits_of(lambda: 0.0), waits_of(lambda: 0.004))
    heard = told(load)
    load.tell(0.100)
    assert heard == [[100, 104]]


async def test_a_caller_that_has_left_is_told_nothing() -> None:
    """It is forgotten."""
    load, caller = Load(waits_of(lambda: 1.0)), Caller()
    load.add(caller)
    load.remove(caller)
    load.tell(0.0)
    assert caller.told == [[0]]


async def test_few_who_wait_long_are_not_told() -> None:
    """They wait for a part that stands still: refusing others would not help them, and is a second fault."""
    load = Load(waits_of(lambda: 3.0, waiting=9))
    heard = told(load)
    load.tell(0.5)
    assert heard == []


async def test_a_database_that_does_not_answer_is_told_from_a_bound_on() -> None:
    """What this loop was late by does not count: it could not have heard an answer."""
    silent = [2.4]
    load = Load(waits_of(lambda: 0.0), Silence(lambda: silent[0], 2.5))
    heard = told(load)
    load.tell(0.0)
    assert heard == []
    silent[0] = 2.6
    load.tell(0.2)
    assert heard == [[200, 0]]
    load.tell(0.0)
    silent[0] = 0.1
    load.tell(0.0)
    assert heard[1:] == [[0, 2600], [0, 0]]
