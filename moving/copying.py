"""Copies a leaf's rows from one SET to the other: streamed in COPY's binary format, in bounded memory."""

import asyncio
from collections.abc import AsyncIterator

from moving.leaves import Leaf
from moving.limits import CHUNKS
from runtime.postgres import Connection

_END = b""


async def copy(source: Connection, target: Connection, leaf: Leaf) -> None:
    """Replace the target's rows of `leaf` by the source's, in one transaction. Idempotent.

    The leaf must not be attached yet at the target, and must not be written to at the source. The rows go into the leaf
    itself, so no trigger of the hot table fires and no payout intent is written twice.
    """
    pipe: asyncio.Queue[bytes] = asyncio.Queue(CHUNKS)
    schema, table = leaf.name.split(".")

    async def take() -> None:
        await source.copy_from_table(table, schema_name=schema, output=pipe.put, format="binary")
        await pipe.put(_END)

    try:
        async with target.transaction(), asyncio.TaskGroup() as tasks:
            await target.execute(f"TRUNCATE {leaf.name}")
            # If one of the two fails, the other is cancelled and the transaction is rolled back.
            tasks.create_task(take())
            tasks.create_task(target.copy_to_table(table, schema_name=schema, source=_chunks(pipe), format="binary"))
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from errors


async def _chunks(pipe: asyncio.Queue[bytes]) -> AsyncIterator[bytes]:
    while chunk := await pipe.get():
        yield chunk
