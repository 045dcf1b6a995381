"""What faults do to people at half load: a SET that is behind, a server that is frozen or killed, a restart of all."""

import asyncio
import contextlib
import os
import resource
import signal
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import aiohttp
import msgspec

from errors import Unavailable
from installation.access import Access
from installation.finding import find
from loadtest.idle_stack import idle_stack
from loadtest.openloop import opens as envelopes
from loadtest.openloop.opens import Envelope
from loadtest.overload.crowd import Opens, Phase, Seen, play, write_opens
from loadtest.run_proof import all_paid, audit_when_paid
from local import running
from local.config import StackConfig
from local.stack import Stack
from sharding.topology import Topology

SETS: Final = 2
SERVERS: Final = 2
GATEWAYS: Final = 2
USERS: Final = 5_000
SLOW_S: Final = (0.08, 0.02)
"""A Postgres that stands still for the first of these times and runs for the second has a fifth of its speed."""
BESIDE: Final = 1_000.0
"""People a second at the SET that is well."""
VICTIM: Final = "set-1-a"
BESIDE_IT: Final = "set-1-b"
PROBES: Final = 4
"""Users at a time whose envelopes are on the server that fails."""
PROBE_S: Final = 3.0
FAULT_S: Final = 4.0
RESTART_S: Final = 30.0
"""A restart of the wallet, four setnodes and two gateways takes 28 s."""
CROWDED: Final = 20_000
"""Connections whose memory is measured, or as many as the files of a process allow."""
SPARE_FILES: Final = 300
Say = Callable[[str], None]


class Faults(msgspec.Struct, frozen=True):
    """`restart`: what people saw meanwhile; `gateway_mb` is the peak at `gateway_connections`, all asking."""

    other_set_p99: float
    """p99 at a SET while another one is overloaded, by p99 while that one is well."""
    failover_s: float
    """The longest time without an answer for what was on a server that was frozen, then killed."""
    restart_failed: int
    restart: Seen
    gateway_mb: float
    gateway_connections: int
    holds: bool


@dataclass
class Field:
    """A running stack, and prepared opens by SET."""

    stack: Stack
    access: Access
    folder: Path
    made: list[Envelope]
    at: int = 0

    def opens(self, some: Sequence[Envelope]) -> Opens:
        """Return the opens of some of the envelopes, by users that no earlier call has named."""
        self.at += 1
        folder = self.folder / f"opens-{self.at}"
        folder.mkdir()
        return write_opens(self.access, some, USERS, envelopes.SHARES, folder, person=f"crowd-{self.at}")

    def of(self, home: Callable[[Topology, int], str], name: str) -> list[Envelope]:
        """Return the envelopes whose `home` has this name."""
        topology = self.access.topology()
        return [one for one in self.made if home(topology, int(one.envelope_id)) == name]

    async def refill(self, opens: float) -> None:
        """Make envelopes for so many opens; those of before are used up."""
        count = int(opens * 1.3) // envelopes.SHARES + 1
        self.made = await envelopes.create(self.access, count, envelopes.SHARES)
        await all_paid(self.access)


async def run(best: float, scratch: Path, seconds: float, say: Say) -> Faults:
    """Measure all of it on stacks of its own; `best`: useful answers a second of this machine."""
    config = StackConfig(
        scratch / "faults", port=0, sets=SETS, servers=SERVERS, gateways=GATEWAYS, ahead_days=1, notify=lambda _: None
    )
    folder = scratch / "faults-crowd"
    folder.mkdir(mode=0o700)
    async with idle_stack(config) as stack:
        field = Field(stack, find(stack.folder.path), folder, [])
        say("one SET is overloaded, another is not")
        other = await _other_set(field, best / 4, seconds)
        say("a setnode is frozen, then killed")
        gap_s = await _failover(field, best / 4)
        say("everything is restarted in turn")
        restart = await _restart(field, best / 2)
        proof = await audit_when_paid(field.access)
    say("memory of a gateway whose connections all ask")
    mb, connections, kept = await _memory(scratch)
    return Faults(
        other_set_p99=round(other, 2),
        failover_s=round(gap_s, 2),
        restart_failed=restart.refused + restart.gave_up + restart.no_connection + restart.broken,
        restart=restart,
        gateway_mb=round(mb, 1),
        gateway_connections=connections,
        holds=proof.holds and proof.sums.in_flight == 0 and kept,
    )


async def _other_set(field: Field, rate: float, seconds: float) -> float:
    """Return p99 at set-2 while set-1 gets more than its slowed Postgres can do, by p99 while set-1 is well."""
    await _p99_beside(field, rate, seconds / 2, slowed=False)  # a warm-up
    well = await _p99_beside(field, rate, seconds, slowed=False)
    return await _p99_beside(field, rate, seconds, slowed=True) / max(0.1, well)


async def _p99_beside(field: Field, rate: float, seconds: float, *, slowed: bool) -> float:
    """Return p99, ms, of BESIDE opens a second at set-2 while `rate` come to set-1."""
    await field.refill(2.5 * (rate + BESIDE) * seconds)
    busy, beside = (field.opens(field.of(_set, name)) for name in ("set-1", "set-2"))
    async with _slowed(field.stack, "postgres-set-1") if slowed else contextlib.nullcontext():
        _, seen = await asyncio.gather(
            play(field.access, busy, [Phase("busy", seconds, rate)]),
            play(field.access, beside, [Phase("beside", seconds, BESIDE)], ahead=200),
        )
    return seen.phases[0].p99_ms


async def _failover(field: Field, rate: float) -> float:
    """Return the longest time without an answer for the envelopes of a server that fails."""
    longest = 0.0
    for how in ("frozen", "killed"):
        await field.refill(rate * FAULT_S * 1.5 + 4_000)
        on_it, beside = field.of(_server, VICTIM), field.of(_server, BESIDE_IT)
        crowd = asyncio.create_task(play(field.access, field.opens(beside), [Phase(how, FAULT_S, rate)]))
        await asyncio.sleep(1.0)
        async with _failing(field.stack, VICTIM, how):
            longest = max(longest, await _longest_gap(field.access, on_it, how, FAULT_S))
        await crowd
        await asyncio.sleep(2.0)
    return longest


async def _restart(field: Field, rate: float) -> Seen:
    """Return what people saw while all our processes were restarted."""
    seconds = RESTART_S
    await field.refill(rate * seconds)
    crowd = asyncio.create_task(play(field.access, field.opens(field.made), [Phase("restart", seconds, rate)]))
    await asyncio.sleep(0.5)
    if error := await field.stack.restart_in_turn():
        raise Unavailable("restart_failed", error)
    return (await crowd).phases[0]


async def _memory(scratch: Path) -> tuple[float, int, bool]:
    """Return the peak of a gateway's memory, MB, at how many connections, and whether the money adds up."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    connections = min(CROWDED, files - SPARE_FILES) if files > 0 else CROWDED
    env = {name: str(connections + 100) for name in ("HONGBAO_CONNECTIONS", "HONGBAO_CONNECTIONS_PER_ADDRESS")}
    config = StackConfig(
        scratch / "memory", port=0, sets=1, servers=1, gateways=1, ahead_days=1, env=env, notify=lambda _: None
    )
    folder = scratch / "memory-crowd"
    folder.mkdir(mode=0o700)
    async with idle_stack(config) as stack:
        access = find(stack.folder.path)
        made = await envelopes.create(access, connections // envelopes.SHARES + 1, envelopes.SHARES)
        await all_paid(access)
        opens = write_opens(access, made, USERS, envelopes.SHARES, folder)
        (pid,) = [one.pid for one in running.load(stack.folder.running).parts if one.name == "gateway-1"]
        rush = [Phase("all", 0.5, 2.0 * connections)]
        seen = (await play(access, opens, rush, ahead=connections, most=connections)).phases[0]
        peak_mb = _peak_mb(pid)
        proof = await audit_when_paid(access)
    return peak_mb, seen.connections, proof.holds


def _set(topology: Topology, envelope_id: int) -> str:
    return topology.set_for(envelope_id).name


def _server(topology: Topology, envelope_id: int) -> str:
    return topology.server_for(envelope_id).name


def _peak_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0


async def _longest_gap(access: Access, some: Sequence[Envelope], name: str, seconds: float) -> float:
    """Open envelopes for so long, some at a time; return the longest time without a good answer."""
    begun = good_at = time.monotonic()
    longest, numbers = 0.0, iter(range(10**9))

    async def keep(session: aiohttp.ClientSession) -> None:
        nonlocal good_at, longest
        while time.monotonic() - begun < seconds:
            number = next(numbers)
            one = some[number % len(some)]
            token = access.token(f"{name}-{number // len(some)}")
            headers = {"Authorization": f"Bearer {token}", "X-Share-Token": one.share_token}
            url = f"{access.gateway_url}/v1/envelopes/{one.envelope_id}/open"
            with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                async with session.post(url, headers=headers) as answer:
                    await answer.read()
                    if answer.status < 400:  # noqa: PLR2004 - a good one
                        now = time.monotonic()
                        longest, good_at = max(longest, now - good_at), now
            await asyncio.sleep(0.01)

    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=PROBE_S)) as session:
        await asyncio.gather(*(keep(session) for _ in range(PROBES)))
    return max(longest, time.monotonic() - good_at)


@contextlib.asynccontextmanager
async def _failing(stack: Stack, name: str, how: str) -> AsyncIterator[None]:
    """Freeze a part for the block, or kill it: then it is started again when the block ends."""
    if how == "killed":
        stack.kill(name, stay_dead=True)
        yield
        await stack.restart(name)
        return
    pids = _family(stack, name)
    _send(pids, signal.SIGSTOP)
    try:
        yield
    finally:
        _send(pids, signal.SIGCONT)


@contextlib.asynccontextmanager
async def _slowed(stack: Stack, name: str) -> AsyncIterator[None]:
    """Let a part run a fifth of the time for the block."""
    stopped_s, runs_s = SLOW_S

    async def slow() -> None:
        while True:
            pids = _family(stack, name)
            _send(pids, signal.SIGSTOP)
            try:
                await asyncio.sleep(stopped_s)
            finally:
                _send(pids, signal.SIGCONT)
            await asyncio.sleep(runs_s)

    slowing = asyncio.create_task(slow())
    try:
        yield
    finally:
        slowing.cancel()
        await asyncio.wait({slowing})


def _family(stack: Stack, name: str) -> list[int]:
    """Return the process of a part and all below it."""
    (pid,) = [one.pid for one in running.load(stack.folder.running).parts if one.name == name]
    found = [pid]
    for one in found:
        with contextlib.suppress(OSError):
            found += map(int, Path(f"/proc/{one}/task/{one}/children").read_text(encoding="utf-8").split())
    return found


def _send(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
