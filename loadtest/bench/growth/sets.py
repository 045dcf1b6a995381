"""Growth with SETs.

Question: what does an open cost with 1, 2, 3, 4 of them at work? SETs are added because there are more people, so each
SET is given the same: as many opens in flight at each, over a link, as a gateway does. (The same total split over more
SETs would ask what smaller batches cost.) Counted is the CPU of the setnodes and their own Postgres until the last
payout is done; seconds say nothing where four SETs share two cores. One stack of four SETs, one to four of them at
work in turn, so that machine and tables are the same for all.

Sketch: SETs share nothing but the wallet; what may grow is what caches and scheduler charge for more processes.
"""

import asyncio
import itertools
import random
import statistics
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from cluster.access import Access, find
from cluster.assembly import record
from cluster.assembly.config import StackConfig
from cluster.assembly.stack import Stack
from cluster.machine.keys import Secrets
from envelope.errors import InvariantBroken, Unavailable
from envelope.outcomes import Outcome
from loadtest.bench import fill
from loadtest.bench.cputime import used_s
from loadtest.bench.figures import Bench, Figures
from loadtest.bench.growth.size import Size
from loadtest.quiet import quiet_stack
from loadtest.settled import paid_out
from runtime.clock import SystemClock
from sharding.ids import candidate_ids, first_id_at
from sharding.slots import TAILS, slots_of
from wire.link import Link
from wire.messages import Op
from wire.orders import create_key

SETS = 4
IN_FLIGHT = 256
"""At each SET."""
CREATES_AT_ONCE = 500
CONNECT_S = 10.0


@dataclass
class Slice:
    """One SET of a running stack as its caller sees it; `pids` are its setnode and its Postgres."""

    name: str
    link: Link
    slots: Sequence[int]
    dsn: str
    pids: Sequence[int]
    envelope_ids: list[int] = field(default_factory=list)


async def measure(bench: Bench, size: Size) -> Figures:
    """Let one to four SETs work, in turn."""
    data = await asyncio.to_thread(bench.scratch, "growth-sets")
    cpu_us: dict[int, list[float]] = {count: [] for count in range(1, SETS + 1)}
    async with quiet_stack(StackConfig(data=data, port=0, sets=SETS, servers=1)) as stack, _slices(stack) as slices:
        access, senders = find(data), (f"host-{number}" for number in itertools.count())
        bench.say("warming up")
        await _turn(access, slices, senders, size)  # a backend's first touch of every table costs three times an open
        for number in range(size.set_rounds):
            for count, runs in cpu_us.items():
                bench.say(f"round {number + 1}, {count} of {SETS} SETs at work")
                # Another SET is the first in every round: all are measured alone at some time.
                at_work = [slices[(number + offset) % SETS] for offset in range(count)]
                runs.append(await _turn(access, at_work, senders, size))
        report = await access.audit()
    bench.audit("growth sets", holds=report.holds, unreconciled_fen=report.unreconciled_fen)
    return {
        "in_flight_per_set": IN_FLIGHT,
        "cpu_us_per_open": {
            str(count): {"median": statistics.median(runs), "runs": runs} for count, runs in cpu_us.items()
        },
    }


async def _turn(access: Access, at_work: Sequence[Slice], senders: Iterator[str], size: Size) -> float:
    """Return CPU µs per open over the SETs at work, all of them opening at once."""
    dsns = [one.dsn for one in at_work]
    for one in at_work:
        await _create(access, one, next(senders), size)
    await paid_out(dsns)
    before = _used_s(at_work)
    await asyncio.gather(*(_open_all(one, size.set_shares) for one in at_work))
    await paid_out(dsns)
    return (_used_s(at_work) - before) * 1e6 / (len(at_work) * size.set_envelopes * size.set_shares)


def _used_s(at_work: Sequence[Slice]) -> float:
    return sum(used_s(pid) for one in at_work for pid in one.pids)


@asynccontextmanager
async def _slices(stack: Stack) -> AsyncIterator[list[Slice]]:
    """Connect to the setnode of every SET, as a gateway would."""
    running, key = record.load(stack.folder.record), Secrets.load(stack.folder.secrets).key("LINK_KEY")
    pids = {part.name: part.pid for part in running.parts}
    access = find(stack.folder.path)
    topology = access.topology()
    async with AsyncExitStack() as links:
        found = []
        for one in topology.sets:
            server = one.servers[0]
            link = await links.enter_async_context(_connected(server.name, server.url, key))
            slots = [slot for xx in topology.databases_of(one.name) for slot in slots_of(xx)]
            mine = (pids[server.name], pids[f"postgres-{one.name}"])
            found.append(Slice(one.name, link, slots, access.set_dsn(one.name), mine))
        yield found


@asynccontextmanager
async def _connected(name: str, url: str, key: str) -> AsyncIterator[Link]:
    link = Link(name, url, key=key)
    keeping = asyncio.ensure_future(link.maintain())
    try:
        async with asyncio.timeout(CONNECT_S):
            while not link.up:
                await asyncio.sleep(0.01)
        yield link
    except TimeoutError:
        raise Unavailable("setnode_away", f"{name} does not answer; look at its log in the data folder") from None
    finally:
        keeping.cancel()
        await asyncio.wait({keeping})


async def _create(access: Access, one: Slice, sender: str, size: Size) -> None:
    """Make envelopes as the gateway would ask for them."""
    total_fen = size.set_shares * fill.SHARE_FEN
    async with access.wallet() as wallet:
        await wallet.deposit(access.order_no(), sender, size.set_envelopes * total_fen)
    terms = {"kind": "lucky", "split": "double_mean", "total_fen": total_fen, "count": size.set_shares}
    few, clock = asyncio.Semaphore(CREATES_AT_ONCE), SystemClock()

    async def create(number: int) -> int:
        slot, tail = one.slots[number % len(one.slots)], random.randrange(TAILS)
        ids = candidate_ids(first_id_at(clock.now()), slot, tail, 3)
        key = create_key(sender, str(number))
        async with few:
            made = await one.link.call(Op.CREATE, sender, key, "bench", ids, {**terms, "expires_in_s": 86_400})
        return int(made[1])

    one.envelope_ids = await asyncio.gather(*(create(number) for number in range(size.set_envelopes)))


async def _open_all(one: Slice, shares: int) -> None:
    """Open every share, round robin, IN_FLIGHT at a time; every open must win."""
    opens = ((envelope_id, f"user-{number}") for number in range(shares) for envelope_id in one.envelope_ids)

    async def caller() -> None:
        for envelope_id, user in opens:
            values = await one.link.call(Op.OPEN, envelope_id, user, True, None)
            if values[0] != Outcome.OPENED.code:
                raise InvariantBroken("every_open_wins", f"{one.name} answered {values} where `opened` was expected")

    await asyncio.gather(*(caller() for _ in range(IN_FLIGHT)))
