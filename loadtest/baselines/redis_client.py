"""Redis asked by its own client in C: redis-benchmark sends the pop over 20 connections, one request each at a time.

One hot envelope is one key; many are random keys of `envelopes`, users are random too. The writer to Postgres runs
after the measured time and not beside it, because Redis would share the cores with our Python.
"""

import asyncio
import csv

from errors import Unavailable
from loadtest.baselines.redis_lua import key
from loadtest.baselines.redis_server import RedisServer
from machine import ports
from machine.account import server_account
from machine.debian_programs import find_program

CONNECTIONS = 20
RUN_S = 120.0
HOT_USERS = 1_000_000_000
_RATE = 1
"""Column of the requests a second in its CSV."""


async def ask(server: RedisServer, pop_sha: str, *, envelopes: int, requests: int) -> float:
    """Send `requests` pops and return requests a second; envelope 0 if there is only one, else random ones."""
    program = await find_program("redis-benchmark", server_account(), server.spec.folder, package="redis-tools")
    one = envelopes == 1
    words = ["-h", ports.LOOPBACK, "-p", str(server.port), "-c", str(CONNECTIONS), "-n", str(requests), "--csv"]
    # One range for all its random numbers: with many envelopes the users are as many.
    words += ["-r", str(HOT_USERS if one else envelopes)]
    words += ["EVALSHA", pop_sha, "1", key(0) if one else "__rand_int__", "__rand_int__"]
    process = await asyncio.create_subprocess_exec(
        str(program.path), *words,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, env=program.env() or None,
    )  # fmt: skip
    try:
        async with asyncio.timeout(RUN_S):
            out, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    lines = [line for line in csv.reader(out.decode().splitlines()) if line and line[0].startswith("EVALSHA")]
    if process.returncode or not lines:
        raise Unavailable("redis_benchmark_failed", f"redis-benchmark gave no rate:\n{out.decode()}")
    return float(lines[-1][_RATE])
