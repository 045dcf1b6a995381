"""Section (b): opens over HTTP, with everything on this machine.

Question: what do gateway, link, setnode, group commit and Postgres carry together, while the wallet pays out behind and
wrk asks from the same cores; and what is that beside the same server with a lock behind it, or with nothing? Workload:
envelopes of 20 shares, opened round robin by as many users over 256 keep-alive connections, every request wins;
creates over the same connections, each with a key of its own. Contenders: this project; the pessimistic lock at its
best pool, behind our own connection loop; a handler of `aiohttp.web.Application` that answers a constant; the same
constant through our own loop. Sketch: about 25 µs of HTTP, 30 of our Python, 30 of Postgres and 30 of wallet an open;
the constant is HTTP alone. Ends with the audit of our stack and the rival's own money check.
"""

import asyncio
import contextlib
import json
import secrets
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median

from cluster import datafolder, ports
from cluster.access import Access, find
from cluster.account import server_account
from cluster.config import StackConfig
from cluster.keys import Secrets
from cluster.services import Service, ServiceSpec
from cluster.stack import Stack
from loadtest import crowd, wrk
from loadtest.bench.figures import Bench, Figures, Row, interleaved
from loadtest.rival_server import Mode
from loadtest.rivals.books import Books
from runtime import postgres

POOLS = (8, 16, 32)
"""Sizes of the lock's pool that are tried; the server allows 60 connections and our own processes have some."""
SETTLE_S = 120.0
RIVALS = "rivals"
SET = "set-1"


@dataclass
class Ground:
    """The running stack, the rivals beside it, and the prepared opens."""

    stack: Stack
    access: Access
    data: Path
    seconds: float
    opens: Path
    books: Books
    made: list[int] = field(default_factory=list)
    at: int = 0
    """The line of the prepared opens that is next."""
    offs: list[str] = field(default_factory=list)
    """What was not as it should be, as sentences."""
    seen: dict[str, list[wrk.Fired]] = field(default_factory=dict)

    def service(self, mode: Mode, pool: int) -> Service:
        """Return a rival's process, not started."""
        keys = Secrets.load(datafolder.choose(self.data, server_account()).secrets).environment()
        env = {
            **keys,
            "HONGBAO_MODE": mode.value,
            "HONGBAO_POSTGRES_DSN": self.stack.postgres(SET).dsn("postgres", RIVALS),
            "HONGBAO_POOL": str(pool),
        }
        log = self.data / f"{mode.value}.log"
        return Service(ServiceSpec(mode.value, "loadtest.rival_server", ports.LOOPBACK, ports.free_port(), env, log))


async def measure(bench: Bench) -> Figures:
    """Start a stack of one SET and one server, fill it, let the contenders take turns, drain, audit."""
    seconds, envelopes = (2, 4_500) if bench.quick else (3, 18_000)
    data = bench.scratch("http")
    bench.say("starting a stack")
    async with _ground(data, seconds) as ground:
        bench.say(f"making {envelopes:,} envelopes")
        # Creates of the turns are paid from the same deposit.
        await crowd.pay_in(ground.access, envelopes + int(bench.rounds * seconds * _CREATES_PER_S))
        made = await crowd.make(ground.access, envelopes)
        ground.made = [int(one["envelope_id"]) for one in made]
        await asyncio.to_thread(crowd.write_opens, ground.access, made, ground.opens)
        bench.say("pools of the lock")
        sweep = {size: (await _lock(ground, 1.0, size)).per_second for size in POOLS}
        pool = max(sweep, key=sweep.__getitem__)
        bench.say("opens")
        async with _served(ground, Mode.CONSTANT) as constant, _served(ground, Mode.CONSTANT_OWN) as own:
            turns = {
                "ours": partial(_ours, ground),
                "create": partial(_create, ground),
                "pessimistic": partial(_locked, ground, pool),
                "constant": partial(_constant, ground, "constant", constant.url),
                "constant_own_loop": partial(_constant, ground, "constant_own_loop", own.url),
            }
            found = await interleaved(bench.rounds, turns)
        bench.say("audit")
        await _paid(ground)
        report = await ground.access.audit()
    told = sum(one.requests for one in ground.seen["ours"])
    if report.sums.claims < told:
        ground.offs.append(f"{told} opens were answered and {report.sums.claims} are in the claim log")
    bench.audit("http", holds=report.holds and not ground.offs, unreconciled_fen=report.unreconciled_fen)
    ours = ground.seen["ours"]
    return {
        "contenders": found,
        "opens_per_second": found["ours"]["median"],
        "creates_per_second": found["create"]["median"],
        "p50_ms": {name: median(one.p50_ms for one in fired) for name, fired in ground.seen.items()},
        "p99_ms": {name: median(one.p99_ms for one in fired) for name, fired in ground.seen.items()},
        "opens": sum(one.requests for one in ours),
        "pools": {str(size): rate for size, rate in sweep.items()},
        "pool": pool,
        "connections": wrk.CONNECTIONS,
        "audit_holds": report.holds,
        "unreconciled_fen": report.unreconciled_fen,
        "offs": ground.offs,
    }


_CREATES_PER_S = 12_000
"""More than can be made here, so that the sender's money does not run out."""


@contextlib.asynccontextmanager
async def _ground(data: Path, seconds: float) -> AsyncIterator[Ground]:
    async with Stack(StackConfig(data=data, port=0, sets=1, servers=1)) as stack:
        superuser = await postgres.connect(stack.postgres(SET).dsn())
        try:
            await superuser.execute(f"CREATE DATABASE {RIVALS}")
        finally:
            await superuser.close(timeout=5.0)
        books = await Books.make(stack.postgres(SET).dsn("postgres", RIVALS))
        try:
            yield Ground(stack, find(data), data, seconds, data / "opens.txt", books)
        finally:
            await books.close()


@contextlib.asynccontextmanager
async def _served(ground: Ground, mode: Mode, pool: int = 1) -> AsyncIterator[Service]:
    """Run a rival's process for the block."""
    service = ground.service(mode, pool)
    await service.start()
    try:
        yield service
    finally:
        await service.stop()


async def _ours(ground: Ground) -> float:
    """Open the next prepared shares in our stack; what is left to pay out is waited for after the clock."""
    lines = len(ground.made) * crowd.SHARES
    fired = await wrk.fire(
        ground.access.gateway_url, ground.seconds, ground.data, wrk.OPEN, str(ground.opens), str(ground.at % lines)
    )
    # Those in flight when wrk stops were sent too.
    ground.at += fired.requests + wrk.CONNECTIONS
    _note(ground, "ours", fired)
    if ground.at > lines:
        ground.offs.append(f"the {lines} prepared opens did not last, so later ones were repeats; prepare more")
    await _paid(ground)
    return fired.per_second


async def _create(ground: Ground) -> float:
    fired = await wrk.fire(
        ground.access.gateway_url, ground.seconds, ground.data, wrk.CREATE,
        secrets.token_hex(8), ground.access.token(crowd.SENDER), json.dumps(crowd.terms()),
    )  # fmt: skip
    _note(ground, "create", fired)
    return fired.per_second


async def _locked(ground: Ground, pool: int) -> float:
    fired = await _lock(ground, ground.seconds, pool)
    _note(ground, "pessimistic", fired)
    return fired.per_second


async def _lock(ground: Ground, seconds: float, pool: int) -> wrk.Fired:
    """Let the lock have its turn with a pool of this size, on the same envelopes, and check its money."""
    await ground.books.prepare(ground.made, crowd.SHARES, crowd.SHARES * crowd.FEN)
    async with _served(ground, Mode.PESSIMISTIC, pool) as service:
        fired = await wrk.fire(service.url, seconds, ground.data, wrk.OPEN, str(ground.opens), "0")
    money = await ground.books.balance(await ground.books.left_in_rows_fen())
    if not money.holds or money.stored < fired.requests:
        ground.offs.append(f"the lock answered {fired.requests} and holds {money}")
    return fired


async def _constant(ground: Ground, name: str, url: str) -> float:
    fired = await wrk.fire(url, ground.seconds, ground.data, wrk.OPEN, str(ground.opens), "0")
    _note(ground, name, fired)
    return fired.per_second


def _note(ground: Ground, name: str, fired: wrk.Fired) -> None:
    ground.seen.setdefault(name, []).append(fired)
    if fired.refused or fired.broken:
        ground.offs.append(f"{name}: {fired.refused} of {fired.requests} requests refused, {fired.broken} broken")


async def _paid(ground: Ground) -> None:
    """Wait until every claim is paid."""
    connection = await postgres.connect(ground.access.set_dsn(SET))
    try:
        async with asyncio.timeout(SETTLE_S):
            while await connection.fetchval("SELECT EXISTS (SELECT FROM payout_batch)"):
                await asyncio.sleep(0.1)
    finally:
        await connection.close(timeout=5.0)


def rows(figures: Figures) -> Iterable[Row]:
    """Show the contenders beside ours."""
    ours = figures["opens_per_second"]
    for name, seen in figures["contenders"].items():
        latency = f"p50 {figures['p50_ms'][name]:.1f} ms, p99 {figures['p99_ms'][name]:.1f} ms"
        beside = "" if name == "ours" else f", ours / this: {ours / seen['median']:.2f}"
        yield Row(f"{NAMES[name]}, {figures['connections']} connections", f"{seen['median']:,.0f} /s", latency + beside)
    for one in figures["offs"]:
        yield Row("HTTP", "fails", one)


NAMES = {
    "ours": "opens over HTTP",
    "create": "creates over HTTP",
    "pessimistic": "pessimistic lock behind the same server",
    "constant": "aiohttp answering a constant",
    "constant_own_loop": "our connection loop answering a constant",
}
