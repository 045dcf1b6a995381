"""The life cycle of a process: logs, uvloop, signals, a bounded stop.

Stop means: take no new work, finish what is in flight, leave. What does not finish within `STOP_S` is left to
the database, which knows what was committed.
"""

import asyncio
import contextlib
import gc
import signal
import sys
from collections.abc import Awaitable, Callable

import uvloop

from envelope.errors import HongbaoError
from runtime import logs

STOP_S = 2.0
"""A process that was told to stop is gone after this long, finished or not."""


def run(name: str, serve: Callable[[asyncio.Event], Awaitable[None]]) -> None:
    """Run `serve(stop)` until it returns; SIGTERM and SIGINT set `stop`. Exits 1 with one line on a known error."""
    logs.set_up(name)
    collect_rarely()
    try:
        uvloop.run(_main(serve))
    except* HongbaoError as group:
        for error in _leaves(group):
            sys.stderr.write(f"error: {error}\n")
        sys.exit(1)


def collect_rarely() -> None:
    """Make the cyclic garbage collector rare.

    Live envelopes are hundreds of thousands of long-lived objects without cycles; with the default thresholds the
    collector walks all of them many times a second, which took a third of the Python time of an open (measured).
    Those made since it last came it walks once, whatever the first threshold, and nobody is served meanwhile: 100,000
    take 20 to 40 ms, 10,000 two. The old ones it looks at after five million, as good as never.
    """
    sys.setswitchinterval(0.0005)
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 500, 100)


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    found: list[BaseException] = []
    for error in group.exceptions:
        found.extend(_leaves(error) if isinstance(error, BaseExceptionGroup) else [error])
    return found


async def _main(serve: Callable[[asyncio.Event], Awaitable[None]]) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    serving = asyncio.ensure_future(serve(stop))
    stopping = asyncio.ensure_future(stop.wait())
    await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not serving.done():
        await asyncio.wait({serving}, timeout=STOP_S)
    if not serving.done():
        serving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await serving
    else:
        serving.result()
