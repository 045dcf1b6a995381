"""What the client costs its app, beside aiohttp by hand.

Question: how many opens a second does one process get through `client`, against the same calls written with aiohttp
alone (a POST, the status looked at, the JSON decoded; no retry, no deadline, no type)? Workload: 64 tasks of one
process open shares of envelopes of 20, each wins, in turn one way and the other, against one SET on the same cores.
Sketch: aiohttp takes some 150 µs of this process for a call, and the server as much of the cores; the client adds a
call as data, the look at the answer and a struct, 15 µs.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from statistics import median
from typing import Any, Final

import aiohttp

from client import Hongbao
from errors import InvariantBroken
from installation.access import Access
from installation.finding import find
from loadtest.bench.figures import Bench, Figures, Row, Section
from loadtest.idle_stack import idle_stack
from loadtest.openloop.opens import Guests, guests
from loadtest.run_proof import all_paid
from local.config import StackConfig

TASKS: Final = 64
OPENS: Final = 20_000
QUICK_OPENS: Final = 4_000

Open = Callable[[int], Awaitable[str]]
"""Opens the share of that number; returns the result."""


async def measure(bench: Bench, opens: int) -> Figures:
    """Let both have their turns; audit."""
    data = bench.scratch("client")
    rates: dict[str, list[float]] = {"by_hand": [], "client": []}
    cpu_us: dict[str, list[float]] = {"by_hand": [], "client": []}
    ways = {"by_hand": _by_hand, "client": _with_client}
    async with idle_stack(StackConfig(data=data, port=0, sets=1, servers=1, ahead_days=1, notify=lambda _: None)):
        access = find(data)
        for number in range(bench.rounds + 1):
            bench.say(f"round {number}" if number else "warming up")
            for name, way in ways.items():
                some = await guests(access, opens)
                await all_paid(access)
                async with way(access, some) as open_one:
                    rate, cpu = await _turn(open_one, opens)
                if number:
                    rates[name].append(rate)
                    cpu_us[name].append(cpu)
        await all_paid(access)
        report = await access.audit()
    bench.audit("client", holds=report.holds, unreconciled_fen=report.unreconciled_fen)
    return {
        "opens_per_second": rates,
        "cpu_us": {name: median(seen) for name, seen in cpu_us.items()},
        "ratio": median(rates["client"]) / median(rates["by_hand"]),
    }


async def _turn(open_one: Open, opens: int) -> tuple[float, float]:
    """Return opens a second, and the CPU of this process for each in µs."""
    numbers: Iterator[int] = iter(range(opens))

    async def work() -> None:
        for number in numbers:
            if (result := await open_one(number)) != "opened":
                raise InvariantBroken("every_open_wins", f"open {number} was answered {result}")

    begun, used = time.perf_counter(), time.process_time()
    await asyncio.gather(*(work() for _ in range(TASKS)))
    return opens / (time.perf_counter() - begun), (time.process_time() - used) / opens * 1e6


@asynccontextmanager
async def _by_hand(access: Access, some: Guests) -> AsyncIterator[Open]:
    tokens = dict(zip(some.users, some.tokens, strict=True))
    shares = {one.envelope_id: one.share_token for one in some.envelopes}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=TASKS)) as session:

        async def open_one(number: int) -> str:
            envelope_id, user = some.of(number)
            headers = {"Authorization": f"Bearer {tokens[user]}", "X-Share-Token": shares[envelope_id]}
            async with session.post(f"{access.gateway_url}/v1/envelopes/{envelope_id}/open", headers=headers) as answer:
                if answer.status != HTTPStatus.OK:
                    return f"{answer.status} {await answer.text()}"
                told: dict[str, Any] = json.loads(await answer.read())
            return str(told["result"])

        yield open_one


@asynccontextmanager
async def _with_client(access: Access, some: Guests) -> AsyncIterator[Open]:
    envelopes = {one.envelope_id: one.share_id for one in some.envelopes}
    async with Hongbao(access.gateway_url) as hongbao:
        users = {user: hongbao.user(token) for user, token in zip(some.users, some.tokens, strict=True)}

        async def open_one(number: int) -> str:
            envelope_id, user = some.of(number)
            return str((await users[user].open(envelopes[envelope_id])).result)

        yield open_one


def rows(figures: Figures) -> Iterable[Row]:
    """Show both with the ratio."""
    rates, cpu = figures["opens_per_second"], figures["cpu_us"]
    for name, title in (("by_hand", "aiohttp by hand"), ("client", "our client")):
        yield Row(title, f"{median(rates[name]):,.0f} /s", f"{cpu[name]:.0f} µs of the process for an open")
    yield Row("our client / by hand", f"{figures['ratio']:.2f}", "at least 0.9")


async def _measure(bench: Bench) -> Figures:
    return await measure(bench, QUICK_OPENS if bench.quick else OPENS)


SECTION: Final = Section("client", "what the client costs its app, beside aiohttp by hand", _measure, rows)
