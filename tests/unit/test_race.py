"""The first of several attempts that succeeds."""

import asyncio
from collections import Counter

import pytest

from runtime.postgres.race import first_of

PAUSE_S = 0.01
MOST_S = 5.0


class Attempts:
    """What each name does: `silent`, an error, or how often it fails before it succeeds."""

    def __init__(self, **does: str | int | Exception) -> None:
        self.does = does
        self.made: Counter[str] = Counter()
        self.dropped: list[str] = []

    async def __call__(self, name: str) -> str:
        self.made[name] += 1
        what = self.does[name]
        if what == "silent":
            await asyncio.sleep(MOST_S)
            raise TimeoutError
        if isinstance(what, Exception):
            raise what
        if self.made[name] <= int(what):
            raise ConnectionError(name)
        return name

    async def first(self, again_s: float = MOST_S) -> str:
        async with asyncio.timeout(MOST_S / 2):
            return await first_of(
                list(self.does), self, pause_s=PAUSE_S, again_s=again_s, drop=self.dropped.append,
                weight=lambda error: 2 if isinstance(error, ValueError) else 1,
            )  # fmt: skip


async def test_a_silent_one_is_passed_over() -> None:
    """The next one begins beside it."""
    attempts = Attempts(a="silent", b="silent", c=0)
    assert await attempts.first() == "c"
    assert attempts.made == {"a": 1, "b": 1, "c": 1}


async def test_one_that_failed_is_made_again_while_another_is_silent() -> None:
    """A standby is promoted while the lost primary is still waited for."""
    attempts = Attempts(a="silent", b=3, c=ConnectionError("c"))
    assert await attempts.first() == "b"
    assert attempts.made["b"] == 4


async def test_all_that_fail_are_made_once() -> None:
    """Whoever asked knows better when to ask again; what tells most is raised."""
    attempts = Attempts(a=ConnectionError("a"), b=ValueError("b"), c=ConnectionError("c"))
    with pytest.raises(ValueError, match="b"):
        await attempts.first()
    assert attempts.made == {"a": 1, "b": 1, "c": 1}


async def test_what_would_fail_again_is_not_made_again() -> None:
    """A wrong password stays wrong."""
    attempts = Attempts(a="silent", b=ValueError("b"), c=2)
    assert await attempts.first() == "c"
    assert attempts.made["b"] == 1


async def test_nothing_is_made_again_for_ever() -> None:
    """After its time only those under way are waited for."""
    attempts = Attempts(a="silent", b=ConnectionError("b"))
    with pytest.raises(TimeoutError):
        await attempts.first(again_s=0.1)
    assert 2 <= attempts.made["b"] <= 11


async def test_what_comes_too_late_is_dropped() -> None:
    """Two succeed in the same turn of the loop: one is returned, the other one closed."""
    ready = asyncio.Event()
    dropped: list[str] = []

    async def attempt(name: str) -> str:
        await ready.wait()
        return name

    first = asyncio.ensure_future(
        first_of(["a", "b"], attempt, pause_s=0.0, again_s=1.0, drop=dropped.append, weight=lambda _: 0)
    )
    await asyncio.sleep(0.05)
    ready.set()
    returned = await first
    await asyncio.sleep(0)
    assert {returned, *dropped} == {"a", "b"}
