"""The crowd that asks a rival: a closed loop of so many waiting at once, for a time or until all is opened."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field

from loadtest.rivals.books import Win
from loadtest.rivals.rival import Gone, Refusal

Ask = tuple[int, str]
"""Envelope and user."""


@dataclass
class Run:
    """What a crowd was told: wins, refusals, and how long each win took from asking to hearing."""

    seconds: float = 0.0
    wins: list[Win] = field(default_factory=list)
    refused: Counter[Refusal] = field(default_factory=Counter)
    latencies_ms: list[float] = field(default_factory=list)

    @property
    def per_second(self) -> float:
        """Wins a second."""
        return len(self.wins) / self.seconds


async def drive(
    ask: Callable[[int, str], Awaitable[int | Refusal]],
    asks: Iterable[Ask],
    waiting: int,
    *,
    seconds: float,
    at_end: Callable[[], None] = lambda: None,
) -> Run:
    """Ask with `waiting` in flight until `asks` are used up or `seconds` are over, and hear the last answer.

    `at_end` is called when the seconds are over: who has only stood in line by then may be sent home. A rival that is
    killed meanwhile ends the run; what was told until then stays told.
    """
    run, line = Run(), iter(asks)
    started = time.perf_counter()
    bell = asyncio.get_running_loop().call_later(seconds, at_end)
    try:
        async with asyncio.TaskGroup() as crowd:
            for _ in range(waiting):
                crowd.create_task(_stand(ask, line, run, started + seconds))
    finally:
        bell.cancel()
    run.seconds = time.perf_counter() - started
    return run


async def _stand(
    ask: Callable[[int, str], Awaitable[int | Refusal]], line: Iterator[Ask], run: Run, end: float
) -> None:
    now = time.perf_counter
    for envelope, user in line:
        asked = now()
        if asked >= end:
            return
        try:
            answer = await ask(envelope, user)
        except Gone:
            return
        if isinstance(answer, Refusal):
            run.refused[answer] += 1
        else:
            run.wins.append((envelope, user, answer))
            run.latencies_ms.append((now() - asked) * 1000)
