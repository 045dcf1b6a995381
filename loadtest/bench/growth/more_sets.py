"""Growth with SETs.

Question: what does an open cost with 1, 2, 3, 4 of them at work? SETs are added because there are more people, so each
SET is given the same rate of opens, in crowds that come at random, over a link, as from a gateway. The rate is half of
what all four carry at once, found anew in each round. Counted is the CPU of the setnodes and their own Postgres until
the last payout is done; seconds say nothing where four SETs share two cores. There is one stack of four SETs, of which
one to four work in turn, so that machine and tables are the same for all.

The same is also measured with every SET saturated, a crowd always in flight at each. There a SET alone has a core to
itself and opens three times as much as each of four, so the ratio says how two full cores cope with nine processes, and
not what an open costs in a SET that has neighbours (docs/decisions/0021).

Sketch: SETs share nothing but the wallet; what may grow is what caches and scheduler charge for more processes.
"""

import asyncio
import itertools
import math
import random
import statistics
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from envelope.outcomes import Outcome
from errors import InvariantBroken, Unavailable
from installation.access import Access
from installation.finding import find
from installation.keys import Secrets
from loadtest.bench import fill
from loadtest.bench.cputime import used_s
from loadtest.bench.figures import Bench, Figures
from loadtest.bench.growth.size import Size
from loadtest.drain import drain_payouts
from loadtest.idle_stack import idle_stack
from local import running
from local.config import StackConfig
from local.stack import Stack
from runtime.clock import SystemClock
from sharding.ids import candidate_ids, first_id_at
from sharding.slots import TAILS, slots_of
from wire.keys import GATEWAY, LinkKey
from wire.link import Link
from wire.messages import Op
from wire.orders import create_key

SETS = 4
CROWD = 256
"""Opens that come at once, or are always in flight, at each SET."""
LOAD = 0.5
"""The load of each SET, as a part of what all four carry at once."""
CREATES_AT_ONCE = 500
CONNECT_S = 10.0


class Turn(NamedTuple):
    """CPU of an open over the SETs at work, and the opens a second that they carried together."""

    cpu_us: float
    opens_per_s: float


@dataclass
class Slice:
    """One SET of a running stack as its caller sees it; `pids` are those of its setnode and its Postgres."""

    name: str
    link: Link
    slots: Sequence[int]
    dsn: str
    pids: Sequence[int]
    envelope_ids: list[int] = field(default_factory=list)


async def measure(bench: Bench, size: Size) -> Figures:
    """Let one to four SETs work in turn: saturated, then each at the same load."""
    data = await asyncio.to_thread(bench.scratch, "growth-sets")
    saturated: dict[int, list[Turn]] = {count: [] for count in range(1, SETS + 1)}
    loaded: dict[int, list[Turn]] = {count: [] for count in saturated}
    config = StackConfig(data=data, port=0, sets=SETS, servers=1, ahead_days=1)
    async with idle_stack(config) as stack, _slices(stack) as slices:
        access, senders = find(data), (f"host-{number}" for number in itertools.count())
        bench.say("warming up")
        await _turn(access, slices, senders, size)  # a backend's first touch of every table costs three times an open
        for number in range(size.set_rounds):
            # Another SET is the first in every round: all are measured alone at some time.
            order = [slices[(number + offset) % SETS] for offset in range(SETS)]
            for count, turns in saturated.items():
                bench.say(f"round {number + 1}, {count} of {SETS} SETs saturated")
                turns.append(await _turn(access, order[:count], senders, size))
            each_per_s = LOAD * saturated[SETS][-1].opens_per_s / SETS
            for count, turns in loaded.items():
                bench.say(f"round {number + 1}, {count} of {SETS} SETs at {each_per_s:,.0f} opens/s each")
                turns.append(await _turn(access, order[:count], senders, size, each_per_s))
        report = await access.audit()
    bench.audit("growth sets", holds=report.holds, unreconciled_fen=report.unreconciled_fen)
    return {
        "crowd_per_set": CROWD,
        "opens_per_second_per_set": statistics.median(one.opens_per_s for one in loaded[1]),
        "cpu_us_per_open": _costs(loaded),
        "saturated": {
            "opens_per_second": {
                str(count): statistics.median(one.opens_per_s for one in turns) for count, turns in saturated.items()
            },
            "cpu_us_per_open": _costs(saturated),
        },
    }


def _costs(turns: Mapping[int, Sequence[Turn]]) -> Figures:
    found = {str(count): [one.cpu_us for one in some] for count, some in turns.items()}
    return {count: {"median": statistics.median(runs), "runs": runs} for count, runs in found.items()}


async def _turn(
    access: Access, at_work: Sequence[Slice], senders: Iterator[str], size: Size, each_per_s: float | None = None
) -> Turn:
    """Let all SETs at work open at once: `each_per_s` opens a second at each, or as many as they carry."""
    dsns = [one.dsn for one in at_work]
    for one in at_work:
        await _create(access, one, next(senders), size)
    await drain_payouts(dsns)
    before, began = _used_s(at_work), time.perf_counter()
    if each_per_s is None:
        await asyncio.gather(*(_saturate(one, size.set_shares) for one in at_work))
    else:
        await asyncio.gather(*(_load(one, size.set_shares, each_per_s) for one in at_work))
    took = time.perf_counter() - began
    await drain_payouts(dsns)
    opens = len(at_work) * size.set_envelopes * size.set_shares
    return Turn((_used_s(at_work) - before) * 1e6 / opens, opens / took)


def _used_s(at_work: Sequence[Slice]) -> float:
    return sum(used_s(pid) for one in at_work for pid in one.pids)


@asynccontextmanager
async def _slices(stack: Stack) -> AsyncIterator[list[Slice]]:
    """Connect to the setnode of every SET, as a gateway would."""
    processes, key = running.load(stack.folder.running), Secrets.load(stack.folder.secrets).link_key(GATEWAY)
    pids = {part.name: part.pid for part in processes.parts}
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
async def _connected(name: str, url: str, key: LinkKey) -> AsyncIterator[Link]:
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
    """Create envelopes over the link, as the gateway does."""
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


def _opens(one: Slice, shares: int) -> Iterator[tuple[int, str]]:
    """Every share of every envelope, round robin."""
    return ((envelope_id, f"user-{number}") for number in range(shares) for envelope_id in one.envelope_ids)


async def _open(one: Slice, envelope_id: int, user: str) -> None:
    values = await one.link.call(Op.OPEN, envelope_id, user, True, None)
    if values[0] != Outcome.OPENED.code:
        raise InvariantBroken("every_open_wins", f"{one.name} answered {values} where `opened` was expected")


async def _saturate(one: Slice, shares: int) -> None:
    """Open every share, a crowd always in flight."""
    opens = _opens(one, shares)

    async def caller() -> None:
        for envelope_id, user in opens:
            await _open(one, envelope_id, user)

    await asyncio.gather(*(caller() for _ in range(CROWD)))


async def _load(one: Slice, shares: int, per_s: float) -> None:
    """Open every share, in crowds that come at random, whether earlier ones were answered or not."""
    opens = _opens(one, shares)
    crowds = iter(lambda: list(itertools.islice(opens, CROWD)), [])
    total = len(one.envelope_ids) * shares
    began = time.perf_counter()
    async with asyncio.TaskGroup() as asking:
        for due in sorted(random.uniform(0, total / per_s) for _ in range(math.ceil(total / CROWD))):
            await asyncio.sleep(began + due - time.perf_counter())
            for envelope_id, user in next(crowds):
                asking.create_task(_open(one, envelope_id, user))
