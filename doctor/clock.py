"""Jumps of the clock: since processes started, since files were written, and against the servers' clocks.

IDs of envelopes, leases and expiries go by the clock. A jump forward closes envelopes early; after one back two servers
take each other's leases for forged.
"""

import asyncio
import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from doctor.finding import Finding, Level
from doctor.limits import EARLY_S, FUTURE_S, LATE_S
from doctor.place import Place
from errors import Unavailable
from installation.access import Access
from runtime import postgres
from setnode.limits import CLOCK_SKEW_S

_DO = "Keep the clock by NTP (timedatectl; apt-get install chrony), and then call ./run restart."


async def clock(place: Place) -> list[Finding]:
    """Look for jumps and for clocks that differ."""
    found = [*_of_processes(place), *_of_files(place)]
    if place.access is not None:
        answers = await asyncio.gather(*(_of_server(place.access, name) for name in place.access.servers()))
        found += [one for one in answers if one is not None]
    now = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    return found or [Finding("clock", Level.OK, "clock", f"the clock has not jumped: {now}")]


def _of_processes(place: Place) -> Iterator[Finding]:
    for part in place.running.parts if place.running is not None else ():
        age = _age_s(part.pid)
        if age is not None:
            noted = (datetime.now(UTC) - datetime.fromisoformat(part.since)).total_seconds()
            jumped = jump_s(noted, age)
            if jumped:
                what = f"The clock was set {_way(jumped)} since {part.name} has started."
                yield Finding("clock", Level.WRONG, part.name, what, _DO)
                return  # all others were started by the same clock


def jump_s(noted_s: float, age_s: float) -> float:
    """Return by how much the clock went forward since a process started, 0 if it did not jump.

    `noted_s`: how long ago its start was, by the clock; `age_s`: how old it is, by the kernel, which counts seconds.
    """
    ahead = noted_s - age_s
    return ahead if not -EARLY_S <= ahead <= LATE_S else 0.0


def _age_s(pid: int) -> float | None:
    """Return how old a process is, by a clock that nobody sets; None if it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    ticks = int(text.rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


def _of_files(place: Place) -> Iterator[Finding]:
    folder = place.folder
    for path in (folder.running, folder.topology, folder.log("supervisor")):
        if path.exists() and (ahead := path.stat().st_mtime - time.time()) > FUTURE_S:
            what = f"{path} was written {ahead:,.0f} s later than it is now: the clock has gone back."
            yield Finding("clock", Level.WRONG, str(path), what, _DO)


async def _of_server(access: Access, name: str) -> Finding | None:
    """Compare a database server's clock with ours; None if they agree, or if it does not answer (`parts` says it)."""
    try:
        async with postgres.connected(access.set_dsn(name)) as connection:
            before = time.time()
            theirs: datetime = await connection.fetchval("SELECT clock_timestamp()")
            after = time.time()
    except Unavailable:
        return None
    apart = max(before - theirs.timestamp(), theirs.timestamp() - after, 0.0)
    if apart <= CLOCK_SKEW_S:
        return None
    what = (
        f"The clock of {name} differs from ours by {apart:,.1f} s, more than the {CLOCK_SKEW_S:g} s that leases bear."
    )
    return Finding("clock", Level.WRONG, name, what, _DO)


def _way(jumped: float) -> str:
    return f"{abs(jumped):,.0f} s {'forward' if jumped > 0 else 'back'}"
