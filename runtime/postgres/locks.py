"""Statements that need table locks: each attempt waits briefly (`lock_timeout`), the next after a pause with jitter."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import stamina

PAUSE_S, PAUSE_MOST_S = 0.05, 1.0
"""Pause between attempts: from the first to the second, doubling, with jitter."""
_LOCKED = ("55P03", "40P01")
"""lock_not_available, deadlock_detected: the statement had no effect."""

T = TypeVar("T")


def is_locked(error: BaseException) -> bool:
    """Say whether `error` means that a lock was not to be had, and the statement had no effect."""
    return getattr(error, "sqlstate", None) in _LOCKED


async def retry_while_locked(
    work: Callable[[], Awaitable[T]], *, patience_s: float, pause_most_s: float = PAUSE_MOST_S
) -> T:
    """Await `work()` until it gets its locks; it must be atomic or safe to repeat.

    After `patience_s` the last attempt's error is raised (`is_locked` holds for it); other errors are raised at once.
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
