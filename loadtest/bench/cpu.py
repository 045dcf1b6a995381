"""Where the CPU of an open goes.

Question: which component costs what? Workload: opens over HTTP at saturation, 256 connections, everything on this
machine, counted until the last credit is in the wallet. The kernel counts the CPU of each process; inside the setnode a
sampler (`sampled`) attributes it to link, actor, commit and payout. The sampler itself costs about 3 %, so no rate is
reported here.
Sketch: gateway 50 µs (HTTP, tokens, link), setnode 20, its Postgres 15, wallet 5 and its Postgres 10, the client 5.
"""

import asyncio
import json
import os
import resource
import signal
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import Final

from errors import InvariantBroken, Unavailable
from installation.finding import find
from loadtest.bench import pictures
from loadtest.bench.cputime import used_s
from loadtest.bench.figures import Bench, Figures, Row, Section
from loadtest.drain import drain_payouts
from loadtest.idle_stack import idle_stack
from loadtest.openloop.opens import create
from loadtest.wrk import client as wrk
from loadtest.wrk import prepared
from local import running
from local.config import StackConfig
from local.stack import Stack

NAMES: Final = {
    "gateway-1": "gateway",
    "set-1-a": "setnode",
    "postgres-set-1": "Postgres of the SET",
    "wallet": "wallet",
    "postgres-wallet": "Postgres of the wallet",
    "memcached": "memcached",
}
CLIENT: Final = "client"
WRITE_S = 5.0


class Meter:
    """Counts CPU while the load runs; `used_s` and `samples` are there afterwards."""

    def __init__(self, samples: Path) -> None:
        self.used_s: dict[str, float] = {}
        self.samples: dict[str, int] = {}
        self._file = samples

    @asynccontextmanager
    async def watch(self, stack: Stack) -> AsyncIterator[None]:
        """Count what the block uses, and the payouts that follow it."""
        pids = {part.name: part.pid for part in running.load(stack.folder.running).parts}
        before = self._now(pids)
        os.kill(pids["set-1-a"], signal.SIGUSR1)
        yield
        await drain_payouts([find(stack.folder.path).set_dsn("set-1")])
        os.kill(pids["set-1-a"], signal.SIGUSR2)
        after = self._now(pids)
        self.used_s = {name: after[name] - before[name] for name in after}
        self.samples = await self._written()

    def _now(self, pids: dict[str, int]) -> dict[str, float]:
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        return {
            **{name: used_s(pids[part]) for part, name in NAMES.items()},
            # The client is our own child and has ended when the block is left; nothing else of ours ends meanwhile.
            CLIENT: ended.ru_utime + ended.ru_stime,
        }

    async def _written(self) -> dict[str, int]:
        deadline = time.monotonic() + WRITE_S
        while not self._file.exists():
            if time.monotonic() > deadline:
                raise Unavailable("no_samples", "the sampled setnode wrote no samples; look at its log")
            await asyncio.sleep(0.02)
        return dict(json.loads(self._file.read_text(encoding="utf-8")))


async def measure(bench: Bench, *, seconds: int) -> Figures:
    """Return CPU µs per open of each component, and of the setnode's parts."""
    envelopes = ceil(wrk.prepared_for(seconds) / prepared.SHARES)
    data = await asyncio.to_thread(bench.scratch, "cpu")
    meter = Meter(data / "samples.json")
    config = StackConfig(data=data, port=0, sets=1, servers=1, env={"BENCH_SAMPLES": str(data / "samples.json")})
    config = replace(config, modules={**config.modules, "setnode": "loadtest.bench.sampled"})
    opens = data / "opens.txt"
    async with idle_stack(config) as stack:
        access = find(data)
        bench.say(f"making {envelopes:,} envelopes")
        made = await create(access, envelopes, prepared.SHARES)
        await asyncio.to_thread(prepared.write_opens, access, made, opens)
        bench.say("opens over HTTP")
        async with meter.watch(stack):
            fired = await wrk.fire_opens(access.gateway_url, seconds, data, opens)
        report = await access.audit()
    if fired.refused or fired.broken or report.sums.claims < fired.requests:
        raise InvariantBroken("every_open_wins", f"{fired} where {report.sums.claims} claims stand in the log")
    bench.audit("cpu", holds=report.holds, unreconciled_fen=report.unreconciled_fen)
    per_open = {name: used * 1e6 / fired.requests for name, used in meter.used_s.items()}
    seen = max(1, sum(meter.samples.values()))
    parts = {
        name: per_open["setnode"] * number / seen for name, number in sorted(meter.samples.items(), key=lambda x: -x[1])
    }
    return {"opens": fired.requests, "us_per_open": per_open, "setnode_us_per_open": parts, "samples": seen}


async def _measure(bench: Bench) -> Figures:
    return await measure(bench, seconds=3 if bench.quick else 10)


def _rows(figures: Figures) -> Iterable[Row]:
    whole = sum(figures["us_per_open"].values())
    yield Row("CPU of an open over HTTP", f"{whole:.0f} µs", f"{figures['opens']:,} opens, client and payout included")
    for name, cost in figures["us_per_open"].items():
        yield Row(f"  {name}", f"{cost:.1f} µs", f"{cost / whole:.0%}")
        if name == "setnode":
            for part, one in figures["setnode_us_per_open"].items():
                yield Row(f"    {part}", f"{one:.1f} µs", "by sampling")


def _plots(figures: Figures, folder: Path) -> Sequence[str]:
    words = pictures.Axes("CPU of an open over HTTP by component", "µs")
    rows = {"all": figures["us_per_open"], "setnode": figures["setnode_us_per_open"]}
    return (pictures.stacked(folder / "cpu.svg", words, rows),)


SECTION: Final = Section("cpu", "where the CPU of an open goes", _measure, _rows, _plots)
