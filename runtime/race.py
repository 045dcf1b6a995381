"""The first of several that succeeds, each begun a little after the one before it, or once that has failed."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

A = TypeVar("A")
T = TypeVar("T")


async def first_of(
    given: Sequence[A],
    attempt: Callable[[A], Awaitable[T]],
    pause_s: float,
    drop: Callable[[T], None],
    weight: Callable[[BaseException], int],
) -> T:
    """Return what the first attempt that succeeds returns; all others are cancelled.

    `drop` gets what an attempt returned too late. If all fail, the error with the greatest `weight` is raised, of equal
    ones the last.
    """
    if len(given) == 1:
        return await attempt(given[0])
    left = list(given)
    running: set[asyncio.Future[T]] = set()
    failed: list[BaseException] = []
    try:
        while left or running:
            if left:
                running.add(asyncio.ensure_future(attempt(left.pop(0))))
            done, _ = await asyncio.wait(
                running, timeout=pause_s if left else None, return_when=asyncio.FIRST_COMPLETED
            )
            for one in done:
                error = one.exception()
                if error is None:
                    running.discard(one)
                    return one.result()
                running.discard(one)
                failed.append(error)
        raise max(reversed(failed), key=weight)
    finally:
        for one in running:
            one.cancel()
            # One that has just succeeded is dropped, too.
            one.add_done_callback(lambda late: _discard(late, drop))


def _discard(late: "asyncio.Future[T]", drop: Callable[[T], None]) -> None:
    if not late.cancelled() and late.exception() is None:
        drop(late.result())
