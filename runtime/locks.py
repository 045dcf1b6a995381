"""Statements that wait for locks of tables: shortly each time, again after a pause with jitter, and not for ever."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import stamina

PAUSE_S, PAUSE_MOST_S = 0.05, 1.0
"""Between two tries: from about the one to the other, doubling, with jitter."""
_LOCKED = ("55P03", "40P01")
"""lock_not_available and deadlock_detected: nothing was done."""

T = TypeVar("T")


def is_locked(error: BaseException) -> bool:
    """Say whether `error` means that somebody held a lock, and nothing was done."""
    return getattr(error, "sqlstate", None) in _LOCKED


async def insist(work: Callable[[], Awaitable[T]], *, patience_s: float, pause_most_s: float = PAUSE_MOST_S) -> T:
    """Await `work()` until it gets its locks; it must be whole or nothing, or safe to repeat.

    Raises the last try's error, for which `is_locked` holds, after `patience_s`; other errors pass at once.
    """
    async for attempt in stamina.retry_context(
        on=is_locked,
        attempts=None,
        timeout=patience_s,
        wait_initial=PAUSE_S,
        wait_max=pause_most_s,
        wait_jitter=PAUSE_S,
    ):
        with attempt:
            return await work()
    raise AssertionError  # pragma: no cover - the context ends by return or by raise
