"""What TLS between the processes costs an open.

Question: how many opens a second over HTTP are left where gateway, setnode and wallet speak TLS, of those without?
Workload: two whole stacks of one SET and one server each, one with TLS and one without, on the same cores; wrk opens
envelopes of 10,000 shares as fast as answers come, at one stack and then at the other, in pairs whose order changes;
the one that has no turn is idle. Payouts to the wallet go over TLS as well, and are waited for after each turn. The
figure is the median of the pairs' ratios: what else the machine does changes slower than a pair. CPU of an open is that
of all processes of the stack, payout included; it says more where something else wants the cores, too.

Sketch: a frame carries the opens of a turn of the loop, about ten of 60 bytes; TLS adds a copy, AES-GCM over a kilobyte
(1 µs), and Python's SSL object (10 to 20 µs) to each frame at both ends: a few µs an open, of 100.
"""

from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from statistics import median
from typing import Final

from loadtest.bench.cputime import used_s
from loadtest.bench.figures import Bench, Figures, Row, Section
from loadtest.bench.opening import Opening, opening
from loadtest.run_proof import all_paid
from loadtest.wrk import client as wrk
from local import running
from local.config import StackConfig

WARM_UP_S: Final = 1.0


@dataclass(frozen=True)
class Size:
    """Seconds of a turn, and number of pairs of turns."""

    seconds: float = 5.0
    pairs: int = 5


QUICK = Size(3.0, 3)
TINY = Size(1.0, 1)


async def measure(bench: Bench, size: Size) -> Figures:
    """Let both take turns; audit both."""
    wanted = wrk.prepared_for(WARM_UP_S) + size.pairs * wrk.prepared_for(size.seconds)
    seen: dict[str, list[float]] = {"plain": [], "tls": []}
    async with AsyncExitStack() as stacks:
        bench.say("starting two stacks")
        both = {name: await stacks.enter_async_context(_stack(bench, name, wanted, tls=name == "tls")) for name in seen}
        for one in both.values():
            await one.opens_per_s(WARM_UP_S)
        cpu_us: dict[str, list[float]] = {name: [] for name in seen}
        for number in range(size.pairs):
            bench.say(f"pair {number + 1} of {size.pairs}")
            for name in sorted(seen, reverse=bool(number % 2)):
                per_s, us = await _turn(both[name], size.seconds)
                seen[name].append(per_s)
                cpu_us[name].append(us)
        offs = []
        for name, one in both.items():
            await all_paid(one.access)
            report = await one.access.audit()
            bench.audit(f"tls: {name}", holds=report.holds and not one.offs, unreconciled_fen=report.unreconciled_fen)
            offs += one.offs
    pairs = [with_tls / plain for with_tls, plain in zip(seen["tls"], seen["plain"], strict=True)]
    return {"opens_per_second": seen, "cpu_us_per_open": cpu_us, "pairs": pairs, "ratio": median(pairs), "offs": offs}


async def _turn(one: Opening, seconds: float) -> tuple[float, float]:
    """Return opens a second, and CPU µs of an open, its payout included."""
    pids = [part.pid for part in running.load(one.stack.folder.running).parts]
    used_before, at_before = sum(map(used_s, pids)), one.at
    per_s = await one.opens_per_s(seconds)
    opens = one.at - at_before - wrk.CONNECTIONS
    return per_s, (sum(map(used_s, pids)) - used_before) * 1e6 / opens


def _stack(bench: Bench, name: str, wanted: int, *, tls: bool) -> AbstractAsyncContextManager[Opening]:
    data = bench.scratch(f"tls-{name}")
    config = StackConfig(data=data, port=0, sets=1, servers=1, ahead_days=1, tls=tls, notify=lambda _: None)
    return opening(bench, f"tls-{name}", config, wanted)


def rows(figures: Figures) -> Iterable[Row]:
    """Show the figure with its aim."""
    seen, pairs = figures["opens_per_second"], ", ".join(f"{one:.2f}" for one in figures["pairs"])
    beside = f"{median(seen['tls']):,.0f} /s with, {median(seen['plain']):,.0f} /s without; pairs {pairs}"
    yield Row("opens with links over TLS / without", f"{figures['ratio']:.2f}", f"{beside}; at least 0.9")
    cpu = {name: median(some) for name, some in figures["cpu_us_per_open"].items()}
    both = f"{cpu['tls']:.0f} µs with, {cpu['plain']:.0f} µs without"
    yield Row("CPU of an open with links over TLS / without", f"{cpu['tls'] / cpu['plain']:.2f}", both)
    for one in figures["offs"]:
        yield Row("tls", "fails", one)


async def _measure(bench: Bench) -> Figures:
    return await measure(bench, QUICK if bench.quick else Size())


SECTION: Final = Section("tls", "what TLS between the processes costs", _measure, rows)
