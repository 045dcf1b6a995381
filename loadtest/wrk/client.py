"""wrk as the client of all HTTP figures: one thread, keep-alive connections, requests made by a script in Lua."""

import asyncio
import re
from dataclasses import dataclass
from pathlib import Path

from errors import Unavailable
from machine.account import server_account
from machine.debian_programs import find_program

CONNECTIONS = 256
LATE_S = 30.0
"""Time for wrk to read its script's file and to receive its last answers; after it wrk is taken to hang. It is also the
timeout of an answer, in place of wrk's own two seconds: a late answer is a latency and not an error."""
OPENS_PER_S = 35_000
"""Opens prepared for each second: more than any contender answers here."""
_HERE = Path(__file__).parent
_OPEN, CREATE = _HERE / "open.lua", _HERE / "create.lua"
_MS = {"us": 0.001, "ms": 1.0, "s": 1000.0}


@dataclass(frozen=True)
class Fired:
    """What wrk reports; `refused` are answers that were no 2xx, `broken` connections that failed or timed out."""

    requests: int
    per_second: float
    p50_ms: float
    p99_ms: float
    refused: int
    broken: int


async def fire(url: str, seconds: float, data: Path, script: Path, *args: str) -> Fired:
    """Send as fast as answers come, for so many whole seconds."""
    wrk = await find_program("wrk", server_account(), data)
    process = await asyncio.create_subprocess_exec(
        str(wrk.path), "-t1", f"-c{CONNECTIONS}", f"-d{seconds:.0f}s", "--timeout", f"{LATE_S:.0f}s", "--latency",
        "-s", str(script), url, "--", *args,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, env=wrk.env() or None,
    )  # fmt: skip
    try:
        async with asyncio.timeout(seconds + LATE_S):
            out, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return read(out.decode())


async def fire_opens(url: str, seconds: float, data: Path, prepared: Path, *, skip: int = 0) -> Fired:
    """Send the prepared opens (`prepared.write_opens`) after the first `skip`, as fast as answers come."""
    return await fire(url, seconds, data, _OPEN, str(prepared), str(skip), str(prepared_for(seconds)))


def prepared_for(seconds: float) -> int:
    """Return how many opens must be prepared so that none is sent twice in so many seconds."""
    return int(seconds * OPENS_PER_S) + CONNECTIONS


def read(said: str) -> Fired:
    """Read wrk's report."""
    sockets = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", said)
    refused = re.search(r"Non-2xx or 3xx responses: (\d+)", said)
    return Fired(
        requests=int(_find(r"(\d+) requests in", said)[0]),
        per_second=float(_find(r"Requests/sec:\s+([\d.]+)", said)[0]),
        p50_ms=_latency("50%", said),
        p99_ms=_latency("99%", said),
        refused=int(refused.group(1)) if refused else 0,
        broken=sum(map(int, sockets.groups())) if sockets else 0,
    )


def _latency(cut: str, said: str) -> float:
    figure, unit = _find(rf"{re.escape(cut)}\s+([\d.]+)(us|ms|s)", said)
    return float(figure) * _MS[unit]


def _find(pattern: str, said: str) -> tuple[str, ...]:
    found = re.search(pattern, said)
    if found is None:
        raise Unavailable("wrk_failed", f"wrk gave no such figure as {pattern!r}:\n{said}")
    return found.groups()
