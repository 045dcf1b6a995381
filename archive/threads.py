"""Blocking work in threads, which nobody can cancel: who is cancelled meanwhile waits for its end, and leaves then.

Else what it works at (a folder, an end of a pipe, an engine) would be taken from under it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def whole(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what `work` returns in a thread; a cancellation is raised when it has ended, not before."""
    return await to_its_end(asyncio.to_thread(work, *args, **kwargs))


async def whole_in(pool: Executor, work: Callable[..., T], *args: object) -> T:
    """Do as `whole`, in a pool of the caller's."""
    return await to_its_end(asyncio.get_running_loop().run_in_executor(pool, work, *args))


async def to_its_end(work: Awaitable[T], *, hurry: Callable[[], object] = lambda: None) -> T:
    """Await `work` and let no cancellation reach it; one that came is raised once it has ended, whatever its result.

    `hurry` is called when one comes: from then on nobody waits for the result.
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
