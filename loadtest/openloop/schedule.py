"""When requests are due, in seconds from the start. Known beforehand: no answer changes it."""

import random
from collections.abc import Iterator
from enum import StrEnum


class Arrivals(StrEnum):
    """How requests come: at random, as from many independent people, or at even gaps."""

    POISSON = "poisson"
    EVEN = "even"


def schedule(arrivals: Arrivals, rate: float, seconds: float, luck: random.Random) -> Iterator[float]:
    """Return the times of all requests of a run, ascending, `rate` a second on average, all before `seconds`."""
    return _even(rate, seconds) if arrivals is Arrivals.EVEN else _poisson(rate, seconds, luck)


def _even(rate: float, seconds: float) -> Iterator[float]:
    return (number / rate for number in range(round(rate * seconds)))


def _poisson(rate: float, seconds: float, luck: random.Random) -> Iterator[float]:
    """Gaps of a Poisson process are exponential (memoryless)."""
    at = luck.expovariate(rate)
    while at < seconds:
        yield at
        at += luck.expovariate(rate)
