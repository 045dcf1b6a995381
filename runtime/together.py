"""Several coroutines at once, as one: all end well, or the first error is raised alone."""

import asyncio
from collections.abc import Coroutine


async def together(*work: Coroutine[None, None, None]) -> None:
    """Wait for all; at the first failure cancel the others and raise that one error."""
    try:
        async with asyncio.TaskGroup() as group:
            for one in work:
                group.create_task(one)
    except BaseExceptionGroup as errors:
        raise _first_error(errors) from None


def _first_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
