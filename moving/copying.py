"""Rows of a leaf from one SET to the other, streamed in Postgres' own binary form, in bounded memory."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from moving.leaves import Leaf
from moving.limits import CHUNKS

_END = b""


async def copy(source: Any, target: Any, leaf: Leaf) -> None:
    """Replace the target's rows of `leaf` by the source's, in one transaction; the leaf is attached to nothing there.

    Straight into the leaf: no trigger of the hot table hears of it, so no payout intent is written a second time.
    """
    pipe: asyncio.Queue[bytes] = asyncio.Queue(CHUNKS)
    schema, table = leaf.name.split(".")

    async def take() -> None:
        await source.copy_from_table(table, schema_name=schema, output=pipe.put, format="binary")
        await pipe.put(_END)

    try:
        async with target.transaction(), asyncio.TaskGroup() as tasks:
            await target.execute(f"TRUNCATE {leaf.name}")
            # Where one fails the other is cancelled, and with it all that it wrote.
            tasks.create_task(take())
            tasks.create_task(target.copy_to_table(table, schema_name=schema, source=_chunks(pipe), format="binary"))
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from errors


async def _chunks(pipe: asyncio.Queue[bytes]) -> AsyncIterator[bytes]:
    while chunk := await pipe.get():
        yield chunk
