"""A closed loop of callers at a baseline: so many opens in flight, for a time or until all shares are opened."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field

from loadtest.baselines.baseline import Gone, Refusal
from loadtest.baselines.books import Win

Ask = tuple[int, str]
"""Envelope and user."""


@dataclass
class Run:
    """The answers of one run: wins, refusals, and the latency of each win."""

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
    """Keep `waiting` opens in flight until `asks` are used up or `seconds` are over; returns after the last answer.

    `at_end` is called when the seconds are over, so that callers which still wait for a connection can be dismissed. A
    baseline that is killed meanwhile ends the run; the answers given until then stay in it.
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
