"""Blocking work in threads. A thread cannot be cancelled, so a caller that is cancelled waits for its end first.

Otherwise the caller would close what the thread still uses: a folder, an end of a pipe, an engine.
"""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def run_blocking(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `work` in a thread and return its result; a cancellation is raised after `work` has ended."""
    return await shielded(asyncio.to_thread(work, *args, **kwargs))


async def run_blocking_in(pool: Executor, work: Callable[..., T], *args: object) -> T:
    """As `run_blocking`, in the caller's pool."""
    return await shielded(asyncio.get_running_loop().run_in_executor(pool, work, *args))


async def shielded(work: Awaitable[T], *, hurry: Callable[[], object] = lambda: None) -> T:
    """Await `work`, shielded from cancellation; a cancellation is raised once `work` has ended, whatever its result.

    `hurry` is called at a cancellation: the result is no longer needed.
    """
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
            hurry()
    if cancelled is not None:
        if not task.cancelled():
            task.exception()
        raise cancelled
    return task.result()
