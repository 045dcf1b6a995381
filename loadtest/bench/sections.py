"""The sections of the benchmark, in the order in which they run."""

import asyncio
from collections.abc import Iterable
from dataclasses import asdict
from typing import Final

import loadtest.engine
import loadtest.gateway
from loadtest.bench import commits, cpu, growth, memory, payouts
from loadtest.bench.figures import Bench, Figures, Row, Section


async def _engine(bench: Bench) -> Figures:
    size = {"envelopes": 1_000, "hot": 1, "hot_shares": 5_000} if bench.quick else {}
    return await loadtest.engine.run(**size)


def _engine_rows(figures: Figures) -> Iterable[Row]:
    for one in figures["results"]:
        yield Row(f"engine, {one['workload']}", f"{one['opens_per_second']:,.0f} opens/s", f"{one['commits']} commits")


async def _http(bench: Bench) -> Figures:
    envelopes, seconds = (500, 1) if bench.quick else (8_000, 8)
    # Nothing else runs on our loop meanwhile: the stack it starts are processes of their own.
    found = await loadtest.gateway.run(
        await asyncio.to_thread(bench.scratch, "http"), envelopes=envelopes, seconds=seconds
    )
    bench.audit("http", holds=found.audit_holds, unreconciled_fen=found.unreconciled_fen)
    return asdict(found)


def _http_rows(figures: Figures) -> Iterable[Row]:
    more = f"p50 {figures['p50_ms']:.1f} ms, p99 {figures['p99_ms']:.1f} ms, {figures['connections']} connections"
    yield Row("opens over HTTP", f"{figures['opens_per_second']:,.0f} /s", more)
    yield Row("creates over HTTP", f"{figures['creates_per_second']:,.0f} /s", "the client is Python")


SECTIONS: Final = (
    Section("engine", "claims inside one SET", _engine, _engine_rows),
    Section("http", "opens through the gateway", _http, _http_rows),
    commits.SECTION,
    growth.SECTION,
    memory.SECTION,
    cpu.SECTION,
    payouts.SECTION,
)
