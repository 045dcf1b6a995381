"""The life cycle of a process: logs, uvloop, signals, garbage collection, a bounded stop.

At a stop a service takes no new work and finishes what is in flight. Work that does not finish within STOP_S is
cancelled; the database knows what was committed. Before that a service may drain: it goes on for a while so that its
clients leave first (`Stop`).
"""

import asyncio
import contextlib
import gc
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import NoReturn

import msgspec
import uvloop

from errors import HongbaoError, Refused
from runtime import logs, settings
from runtime.http import Readiness

STOP_S = 2.0
"""After a signal to stop, and after its drain, a service has this long; then it is cancelled."""


READY_LOOK_S = 0.02
"""How often a process looks whether it is ready, where somebody waits for that."""


class Stop(asyncio.Event):
    """Set when a service is to stop. One that drains says for how long it may, and ends early once `at_once` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.at_once = asyncio.Event()
        self.drain_s = 0.0

    def set_at_once(self) -> None:
        """Stop without a drain."""
        self.at_once.set()
        self.set()


async def tell_ready(readiness: Readiness, number: int, stop: asyncio.Event) -> None:
    """Write to the inherited file `number` once the process is ready, and close it; -1: nobody wants to know."""
    if number < 0:
        return
    try:
        while readiness.missing() and not stop.is_set():
            await asyncio.sleep(READY_LOOK_S)
        if not stop.is_set():
            with contextlib.suppress(BrokenPipeError):  # whoever waited has gone
                os.write(number, b"ready\n")
        os.close(number)
    except OSError as error:
        raise Refused(
            "settings_invalid", f"HONGBAO_READY_FD: {number} is no file that this process inherited ({error.strerror})"
        ) from error


def run(name: str, serve: Callable[[Stop], Awaitable[None]], kind: type[msgspec.Struct] | None = None) -> None:
    """Run `serve(stop)` until it returns; SIGTERM and SIGINT set `stop`, SIGINT without a drain.

    Exits 1 with one line on a known error.

    With `kind`, the struct of its settings, the process takes no arguments but --help, which lists them.
    """
    if kind is not None and sys.argv[1:]:
        _explain(name, kind)
    logs.set_up(name)
    tune_gc()
    try:
        uvloop.run(_main(serve))
    except* HongbaoError as group:
        for error in _leaves(group):
            sys.stderr.write(f"error: {error}\n")
        sys.exit(1)


def tune_gc() -> None:
    """Make the cyclic garbage collector run rarely, and briefly each time.

    Live envelopes are hundreds of thousands of long-lived objects without cycles; with the default thresholds the
    collector walks all of them many times a second. While it runs no request is served, so the first threshold is low
    enough that a young collection takes a few milliseconds; old objects are walked only after millions of new ones.

    What imports have made is never walked: the two thousand objects among it that are garbage are not worth a walk of
    40 ms. A process that has switched the collector off for its imports gets it back here.
    """
    sys.setswitchinterval(0.0005)
    gc.freeze()
    gc.set_threshold(10_000, 500, 100)
    gc.enable()


def _explain(name: str, kind: type[msgspec.Struct]) -> NoReturn:
    """Print the settings and exit 0, or exit 2 if something else than that was asked."""
    if sys.argv[1:] not in (["--help"], ["-h"]):
        sys.stderr.write(f"error: {name} takes no arguments, its settings are in the environment: see --help\n")
        sys.exit(2)
    sys.stdout.write(f"usage: python -m {name}\n\n{settings.describe(kind)}\n")
    sys.exit(0)


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    found: list[BaseException] = []
    for error in group.exceptions:
        found.extend(_leaves(error) if isinstance(error, BaseExceptionGroup) else [error])
    return found


async def _main(serve: Callable[[Stop], Awaitable[None]]) -> None:
    stop = Stop()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    loop.add_signal_handler(signal.SIGINT, stop.set_at_once)
    serving = asyncio.ensure_future(serve(stop))
    stopping, hurrying = asyncio.ensure_future(stop.wait()), asyncio.ensure_future(stop.at_once.wait())
    await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
    if stop.drain_s and not serving.done():
        await asyncio.wait({serving, hurrying}, timeout=stop.drain_s, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    hurrying.cancel()
    if not serving.done():
        await asyncio.wait({serving}, timeout=STOP_S)
    if not serving.done():
        serving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await serving
    else:
        serving.result()
