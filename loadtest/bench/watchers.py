"""What it costs to watch: memory of a stream, CPU of a delivery, and what opens lose.

Question: may thousands of people look at one envelope while a crowd opens it? Workload: streams at one gateway, all
watching the same envelopes; wrk opens those one after the other, as fast as answers come, in turn with as many opens
without a stream. Watchers connect from a process of their own and do not read while it is measured: their
sockets have room for what comes, so the client takes no CPU that the gateway would have (the kernel's receiving is in
the gateway's account, because on loopback it happens in its `send`).

Sketch: a stream is a protocol object, a transport and its place in two dictionaries, 2 KB; a delivery is a system call,
7 µs; a busy gateway gives streams 2 % of its time (`gateway.limits.LIVE_SHARE_BUSY`).
"""

import asyncio
import contextlib
import resource
import sys
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from http import HTTPStatus
from statistics import median
from typing import Final, cast

import aiohttp

from errors import Unavailable
from loadtest.bench.cputime import used_s
from loadtest.bench.figures import Bench, Figures, Row, Section
from loadtest.bench.opening import SHARES, Opening, opening
from loadtest.rss import resident_bytes_of
from loadtest.run_proof import all_paid
from loadtest.wrk import client as wrk
from local import running
from local.config import StackConfig
from machine.checkout import CHECKOUT

WATCHED: Final = 12
"""Envelopes that each stream watches: more than a turn opens."""
CONNECT_S: Final = 60.0
PACED: Final = 200
"""Opens one after the other while deliveries are weighed: a gateway that has little else to do."""


@dataclass(frozen=True)
class Size:
    """Streams; seconds and number of the turns with and without them."""

    watchers: int = 5_000
    seconds: float = 3.0
    rounds: int = 5


QUICK = Size(2_000, 2.0, 3)
TINY = Size(50, 1.0, 1)


@dataclass
class Arena(Opening):
    """Prepared opens, and streams that watch their envelopes; `gateway` is its process ID."""

    gateway: int = 0

    @contextlib.asynccontextmanager
    async def watchers(self, number: int, envelopes: int = WATCHED) -> AsyncIterator[None]:
        """Have so many streams on the `envelopes` that are opened next, from a process of its own."""
        first = self.at // SHARES
        watched = ",".join(one.share_id for one in self.made[first : first + envelopes])
        tokens = self.folder / "watchers.txt"
        tokens.write_text("".join(f"{self.access.token(f'watcher-{one}')}\n" for one in range(number)), "ascii")
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "loadtest.bench.watchers_process", self.access.gateway_url, watched, str(tokens),
            cwd=CHECKOUT, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        try:
            async with asyncio.timeout(CONNECT_S):
                said = (await cast("asyncio.StreamReader", process.stdout).readline()).decode().strip()
            if said != f"{number} connected":
                raise Unavailable("watchers_failed", f"{number} streams could not be had: {said or 'no word'}")
            yield
            await process.communicate(b"stop\n")
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


async def measure(bench: Bench, size: Size) -> Figures:
    """Weigh streams and deliveries, then let opens with and without them take turns; audit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        async with _started(bench, size) as arena:
            bench.say("warming up")
            await arena.opens_per_s(1.0)
            bench.say(f"weighing {size.watchers:,} streams")
            bytes_each, delivery_us = await _weigh(arena, size)
            bench.say("opens with and without streams")
            alone, watched, delivered = [], [], []
            for _ in range(size.rounds):
                alone.append(await arena.opens_per_s(size.seconds))
                async with arena.watchers(size.watchers):
                    before = await _events(arena)
                    watched.append(await arena.opens_per_s(size.seconds))
                    delivered.append((await _events(arena) - before) / size.watchers / size.seconds)
            bench.say("audit")
            await all_paid(arena.access)
            report = await arena.access.audit()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    bench.audit("watchers", holds=report.holds and not arena.offs, unreconciled_fen=report.unreconciled_fen)
    return {
        "watchers": size.watchers,
        "bytes_each": bytes_each,
        "delivery_us": delivery_us,
        "opens_per_second": {"alone": alone, "watched": watched},
        "loss": 1 - median(watched) / median(alone),
        "frames_per_second": delivered,
        "offs": arena.offs,
    }


@contextlib.asynccontextmanager
async def _started(bench: Bench, size: Size) -> AsyncIterator[Arena]:
    folder = bench.scratch("watchers")
    env = {"HONGBAO_CONNECTIONS_PER_ADDRESS": "16384"}
    config = StackConfig(data=folder, port=0, sets=1, servers=1, ahead_days=1, env=env)
    wanted = wrk.prepared_for(1.0) + 2 * size.rounds * wrk.prepared_for(size.seconds)
    async with opening(bench, "watchers", config, wanted, WATCHED + 1) as one:
        pids = {part.name: part.pid for part in running.load(folder / "running.json").parts}
        gateway = next(pid for name, pid in pids.items() if name.startswith("gateway"))
        yield Arena(one.stack, one.access, folder, one.made, one.path, gateway=gateway)


async def _weigh(arena: Arena, size: Size) -> tuple[float, float]:
    """Return the bytes of a stream in the gateway, and the CPU of a delivery in µs."""
    before = resident_bytes_of(arena.gateway)
    async with aiohttp.ClientSession() as session:
        idle_s = await _paced(arena, session, 0)
        async with arena.watchers(size.watchers, 1):
            held = resident_bytes_of(arena.gateway)
            events = await _events(arena)
            busy_s = await _paced(arena, session, PACED)
            delivered = await _events(arena) - events
    return (held - before) / size.watchers, (busy_s - idle_s) / max(1.0, delivered) * 1e6


async def _paced(arena: Arena, session: aiohttp.ClientSession, first: int) -> float:
    """Open PACED shares of the watched envelope one after the other; return the CPU seconds of the gateway."""
    before = used_s(arena.gateway)
    envelope = arena.made[arena.at // SHARES]
    for number in range(first, first + PACED):
        headers = {
            "Authorization": f"Bearer {arena.access.token(f'paced-{number}')}", "X-Share-Token": envelope.share_token,
        }  # fmt: skip
        url = f"{arena.access.gateway_url}/v1/envelopes/{envelope.envelope_id}/open"
        async with session.post(url, headers=headers) as answer:
            if answer.status != HTTPStatus.OK:
                arena.offs.append(f"a paced open was answered {answer.status}")
        await asyncio.sleep(0.01)
    return used_s(arena.gateway) - before


async def _events(arena: Arena) -> float:
    """Return how many events the gateway has written to streams."""
    headers = arena.access.metrics_headers()
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{arena.access.gateway_url}/metrics", headers=headers) as answer,
    ):
        for line in (await answer.text()).splitlines():
            if line.startswith("hongbao_live_events_total "):
                return float(line.split()[1])
    raise Unavailable("no_metric", "the gateway has no hongbao_live_events_total")


def rows(figures: Figures) -> Iterable[Row]:
    """Show the figures with their aims."""
    many = f"{figures['watchers']:,} streams of one hot envelope"
    yield Row(many, f"{figures['bytes_each']:,.0f} bytes each", "at most 4,096")
    yield Row(
        "a delivery", f"{figures['delivery_us']:.1f} µs of the gateway", "at most 10, the kernel's receiving included"
    )
    rates = figures["opens_per_second"]
    frames = median(figures["frames_per_second"])
    beside = f"{median(rates['alone']):,.0f} /s alone, {median(rates['watched']):,.0f} /s watched, at most 5 %"
    yield Row("opens lose", f"{figures['loss']:.1%}", f"{beside}; {frames:.1f} frames/s each")
    for one in figures["offs"]:
        yield Row("watchers", "fails", one)


async def _measure(bench: Bench) -> Figures:
    return await measure(bench, QUICK if bench.quick else Size())


SECTION = Section("watchers", "people who watch while others open", _measure, rows)
