"""Pauses between attempts."""

import asyncio
import random

FIRST_PAUSE_S = 0.05
"""Twice this is the longest pause after a first failure; each further failure doubles it."""


def backoff_s(attempt: int, *, most_s: float = 2.0) -> float:
    """Return the pause before attempt `attempt` + 1: exponential backoff with full jitter, at most `most_s`."""
    return random.uniform(0, min(most_s, FIRST_PAUSE_S * 2 ** min(attempt, 10)))  # noqa: S311 - no secret


async def pause(attempt: int, *, most_s: float = 2.0) -> None:
    """Sleep before the next attempt (see `backoff_s`)."""
    await asyncio.sleep(backoff_s(attempt, most_s=most_s))
