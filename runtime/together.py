"""Several things at once, of which all must succeed: the first that fails ends the others, and its error is raised."""

import asyncio
from collections.abc import Coroutine


async def all_or_first_error(*works: Coroutine[None, None, None]) -> None:
    """Wait for all; at the first failure cancel the others and raise that one error."""
    try:
        async with asyncio.TaskGroup() as group:
            for work in works:
                group.create_task(work)
    except BaseExceptionGroup as errors:
        raise _first_error(errors) from None


def _first_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
