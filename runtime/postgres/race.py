"""The first of several that succeeds, each begun a little after the one before it, or once that has failed."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

A = TypeVar("A")
T = TypeVar("T")


async def first_of(
    given: Sequence[A],
    attempt: Callable[[A], Awaitable[T]],
    *,
    pause_s: float,
    again_s: float,
    drop: Callable[[T], None],
    weight: Callable[[BaseException], int],
) -> T:
    """Return the result of the first attempt that succeeds; all others are cancelled.

    An attempt at the next of `given` begins `pause_s` after the one before it, or as soon as that has failed. As long
    as any attempt is under way, one that failed is repeated after `pause_s`, for `again_s` in all: a standby that
    refused may have become the primary while another host was silent. `weight` rates an error: 0 or 1 if a later
    attempt may succeed, 2 if none will, so that it is not repeated. If all have failed, the error with the greatest
    weight is raised, of several the last. `attempt` must end by itself. `drop` gets a result that came too late.
    """
    if len(given) == 1:
        return await attempt(given[0])
    loop = asyncio.get_running_loop()
    fresh, again = deque(given), deque[tuple[float, A]]()
    next_at = loop.time()
    end = next_at + again_s
    running: dict[asyncio.Future[T], A] = {}
    failed: list[BaseException] = []
    try:
        while fresh or running:
            now = loop.time()
            if fresh and (not running or next_at <= now):
                one = fresh.popleft()
                running[asyncio.ensure_future(attempt(one))] = one
                next_at = now + pause_s
            elif again and again[0][0] <= now:
                one = again.popleft()[1]
                running[asyncio.ensure_future(attempt(one))] = one
            due = min([*([next_at] if fresh else []), *(at for at, _ in again)], default=None)
            wait_s = None if due is None else max(0.0, due - loop.time())
            done, _ = await asyncio.wait(running, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
            for ended in done:
                one = running.pop(ended)
                error = ended.exception()
                if error is None:
                    return ended.result()
                failed.append(error)
                next_at = loop.time()
                if weight(error) <= 1 and next_at < end:
                    again.append((next_at + pause_s, one))
        raise max(reversed(failed), key=weight)
    finally:
        for late in running:
            late.cancel()
            # One that has just succeeded is dropped, too.
            late.add_done_callback(lambda one: _discard(one, drop))


def _discard(late: "asyncio.Future[T]", drop: Callable[[T], None]) -> None:
    if not late.cancelled() and late.exception() is None:
        drop(late.result())
