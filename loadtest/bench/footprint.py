"""The memory of a live envelope and of a waiting request.

Question: how many envelopes may be open at once on a server? Workload: tens of thousands of envelopes of 20 shares,
not opened, half opened and fully opened, with names of 16 characters, each a string of its own as it comes off the
link; requests read from frames that wait in a mailbox; envelopes above the bound of memory. Each kind is measured in a
process that has just begun, by its resident set and by tracemalloc. Sketch: header and actor 1.2 KB; a
name 80 bytes and its place in the dictionary 25 to 50; a time and an amount 8 each.

The promise is about a half opened envelope, by resident set. One that is sold out takes more, needs no more decisions,
and is the first to leave memory.
"""

import asyncio
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from errors import Unavailable
from loadtest.bench import pictures
from loadtest.bench.figures import Bench, Figures, Row, Section
from machine.checkout import CHECKOUT

KINDS: Final = {
    "fresh": "envelope of 20, not opened",
    "half": "envelope of 20, half opened",
    "full": "envelope of 20, sold out",
    "asleep": "envelope put to sleep",
    "waiting": "request that waits",
}
COUNT, QUICK_COUNT = 50_000, 5_000
WEIGH_S = 120.0


async def weigh(count: int) -> Figures:
    """Return bytes of each kind, by resident set and by tracemalloc."""
    found: Figures = {}
    for kind in KINDS:
        resident, traced = await weigh_one(kind, count), await weigh_one(f"{kind}:traced", count)
        found[kind] = {"resident": resident, "traced": traced}
    return found


async def weigh_one(what: str, count: int) -> float:
    """Return the bytes of one kind (`footprint_process.weigh`), found in a process of its own."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "loadtest.bench.footprint_process", what, str(count),
        cwd=CHECKOUT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        async with asyncio.timeout(WEIGH_S):
            out, said = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise Unavailable("weigh_failed", f"the process that weighs {what} failed:\n{said.decode()[-2000:]}")
    return float(json.loads(out)["bytes"])


async def _measure(bench: Bench) -> Figures:
    return {"count": (count := QUICK_COUNT if bench.quick else COUNT), "bytes": await weigh(count)}


def _rows(figures: Figures) -> Iterable[Row]:
    for kind, name in KINDS.items():
        one = figures["bytes"][kind]
        yield Row(name, f"{one['resident']:,.0f} bytes", f"{one['traced']:,.0f} by Python's own account")


def _plots(figures: Figures, folder: Path) -> Sequence[str]:
    weights = {name: max(0.0, figures["bytes"][kind]["resident"]) for kind, name in KINDS.items()}
    return (pictures.bars(folder / "memory.svg", pictures.Axes("What stays in memory", "bytes"), weights),)


SECTION: Final = Section("memory", "what live envelopes and waiting requests weigh", _measure, _rows, _plots)
