"""`python -m loadtest.bench.sampled`: a setnode that samples its own stack a thousand times a CPU second.

SIGUSR1 begins, SIGUSR2 ends and writes {component: samples} as JSON to the file named in BENCH_SAMPLES. The timer
counts the CPU time of the process (ITIMER_PROF): a process that waits is not sampled, and every sample stands for the
same CPU. The interpreter delivers the signal between two instructions, so time inside C (asyncpg, msgspec) counts for
the Python that called it. Samples in the event loop alone are `loop and sockets`.
"""

import json
import os
import runpy
import signal
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Final

INTERVAL_S = 0.001
OTHER: Final = "loop and sockets"
COMPONENTS: Final = (
    ("payout", ("setnode.services.payouts", "wire.wallet", "wire.link", "wire.orders")),
    ("admission", ("setnode.commit.admission", "setnode.commit.lease_", "pymemcache", "concurrent.futures")),
    ("commit", ("setnode.commit.", "setnode.actors.batch")),
    ("actor", ("setnode.actors.", "setnode.dispatch", "setnode.views.", "setnode.passwords", "envelope.")),
    ("link", ("wire.server", "aiohttp.")),
    ("services", ("setnode.", "runtime.", "schema.")),
)
"""The component of a frame, by the beginning of its module's name; the innermost frame that has one decides."""
_THROUGH = ("runtime.postgres", "runtime.process", "wire.framing", "uvloop", "asyncpg", "asyncio", "threading")
"""Plumbing: a sample in it belongs to its caller."""

_seen: Counter[str] = Counter()


def component(modules: list[str]) -> str:
    """Return the component of a stack, its modules from the innermost outwards."""
    for module in modules:
        if not module.startswith(_THROUGH):
            for name, beginnings in COMPONENTS:
                if module.startswith(beginnings):
                    return name
    return OTHER


def _sample(_: int, frame: FrameType | None) -> None:
    modules = []
    while frame is not None:
        modules.append(frame.f_globals.get("__name__", ""))
        frame = frame.f_back
    _seen[component(modules)] += 1


def _begin(_: int, __: FrameType | None) -> None:
    _seen.clear()
    signal.setitimer(signal.ITIMER_PROF, INTERVAL_S, INTERVAL_S)


def _end(_: int, __: FrameType | None) -> None:
    signal.setitimer(signal.ITIMER_PROF, 0)
    target = Path(os.environ["BENCH_SAMPLES"])
    draft = target.with_suffix(".draft")
    draft.write_text(json.dumps(_seen), encoding="utf-8")
    draft.replace(target)


if __name__ == "__main__":
    signal.signal(signal.SIGPROF, _sample)
    signal.signal(signal.SIGUSR1, _begin)
    signal.signal(signal.SIGUSR2, _end)
    runpy.run_module("setnode", run_name="__main__")
