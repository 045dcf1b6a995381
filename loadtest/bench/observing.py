"""What it costs to be observed: traces while a request is not chosen, and scrapes of metrics.

Question: how much does an open pay for traces when it is not traced, in all processes together, and how much CPU does a
process spend on one answer at `/metrics`? Workload: first the looks that an open passes, timed alone in this process,
the real objects where one is called and the same expression where it is inline; a header `traceparent` of a trusted
caller that does not record is the dearest case. Then a stack of one SET and one server that has served opens; each
process is scraped in turn, and the kernel counts its CPU. Per commit and per call to the wallet counts once per open,
though a batch shares it.
Sketch: a lookup in the headers 0.1 µs, a random number 0.05 µs, a context variable 0.03 µs, six looks of 0.02 µs; a
scrape formats about 500 lines, 2 to 4 ms.
"""

import asyncio
import timeit
from collections.abc import Iterable
from statistics import median
from typing import Any, Final, cast

import aiohttp
from multidict import CIMultiDict, CIMultiDictProxy

from gateway.identity.auth_failures import CLIENT_ADDRESS
from gateway.identity.proxies import TrustedProxies
from gateway.traces import Sampler, TracedRequests
from loadtest.bench.cputime import used_s
from loadtest.bench.figures import Bench, Figures, Row, Section
from loadtest.bench.opening import opening
from local import running
from local.config import StackConfig
from setnode.actors.batch import ClaimBatch
from setnode.services.payouts.payer import Payer
from setnode.services.payouts.payout_batch import PayoutBatch
from wire.server import Caller
from wire.traced import SENT_WITH

RUNS: Final = 200_000
REPEATS: Final = 7
SCRAPES: Final = 100
SCRAPED: Final = ("gateway", "set-", "wallet", "events")
"""Beginnings of the names of our own processes; the operators' has the metrics of all of them, by asking them."""
LOOKS: Final = {
    "setnode: was the request announced?": "caller.trace is not None",
    "setnode: is anything of the envelope traced?": "traced and 1 in traced",
    "setnode: does the commit belong to a trace?": "batch.traced",
    "setnode: does the payout belong to a trace?": "pays(batches, 1)",
    "setnode: is the call to the wallet traced?": "sent_with() is not None",
    "wallet: was the call announced?": "caller.trace is not None and traces is not None",
    "gateway: is the call to the SET traced?": "sent_with() is not None",
}
"""What runs inline, by where it does."""


def _ns(statement: str, names: dict[str, Any], runs: int) -> float:
    """Return what a statement takes, without the loop around it; the least of REPEATS, which nothing disturbed."""
    timed, empty = (min(timeit.repeat(one, globals=names, number=runs, repeat=REPEATS)) for one in (statement, "pass"))
    return max(0.0, timed - empty) / runs * 1e9


class _Inner:
    def serve(self, request: object) -> object:
        return request


class _Asked:
    def __init__(self, **headers: str) -> None:
        self.headers = CIMultiDictProxy(CIMultiDict({"Authorization": "Bearer x", "X-Share-Token": "y", **headers}))


def unsampled(runs: int = RUNS) -> dict[str, float]:
    """Return nanoseconds of each look that an untraced open passes, the gateway's choice in its dearest case."""
    CLIENT_ADDRESS.set("10.1.2.3")
    sampler = Sampler(1e-9, TrustedProxies("192.168.0.0/16,10.0.0.0/8"))
    inner = _Inner()
    serve = TracedRequests(cast("Any", inner), sampler, cast("Any", None)).serve
    caller, batch = Caller("caller"), ClaimBatch(0)
    payer = Payer(cast("Any", None), cast("Any", None), traces=cast("Any", sampler))
    names = {
        "caller": caller,
        "batch": batch,
        "batches": [PayoutBatch(1, (), (), 0.0)],
        "pays": payer._traced,  # noqa: SLF001 - timed as it stands
        "traced": {},
        "traces": sampler,
        "sent_with": SENT_WITH.get,
    }
    passed_by = _Asked(traceparent=f"00-{'a' * 32}-{'b' * 16}-00")
    plain = _ns("inner(request)", {"inner": inner.serve, "request": _Asked()}, runs)
    chosen = {
        "gateway: the choice by our own coin": _Asked(),
        "gateway: the choice by a trusted caller's header": passed_by,
    }
    found = {
        what: max(0.0, _ns("serve(request)", {"serve": serve, "request": one}, runs) - plain)
        for what, one in chosen.items()
    }
    return {**found, **{what: _ns(statement, names, runs) for what, statement in LOOKS.items()}}


async def scrapes(bench: Bench) -> dict[str, dict[str, float]]:
    """Return CPU ms and lines of one scrape of each process."""
    data = bench.scratch("observing")
    config = StackConfig(
        data=data, port=0, sets=1, servers=1, ahead_days=1, ops=True, events=True, notify=lambda _: None
    )
    found: dict[str, dict[str, float]] = {}
    async with opening(bench, "observing", config, 20_000) as one, aiohttp.ClientSession() as session:
        await one.opens_per_s(1.0)
        headers = one.access.metrics_headers()
        for part in running.load(one.stack.folder.running).parts:
            if not part.name.startswith(SCRAPED):
                continue
            address = part.address if "://" in part.address else f"http://{part.address}"
            url, costs, lines = f"{address.rstrip('/')}/metrics", [], 0
            for _ in range(5):
                await asyncio.sleep(0)
                before = used_s(part.pid)
                for _ in range(SCRAPES // 5):
                    async with session.get(url, headers=headers) as answer:
                        lines = len((await answer.text()).splitlines())
                        answer.raise_for_status()
                costs.append((used_s(part.pid) - before) * 1e3 / (SCRAPES // 5))
            found[part.name] = {"cpu_ms": median(costs), "lines": lines}
        report = await one.access.audit()
        bench.audit("observing", holds=report.holds and not one.offs, unreconciled_fen=report.unreconciled_fen)
    return found


async def _measure(bench: Bench) -> Figures:
    bench.say("timing what an untraced open pays")
    looks = await asyncio.to_thread(unsampled)
    bench.say("scraping a stack")
    return {"unsampled_ns": looks, "scrapes": await scrapes(bench)}


def rows(figures: Figures) -> Iterable[Row]:
    """Show both costs with their aims."""
    looks, coin = figures["unsampled_ns"], "gateway: the choice by our own coin"
    header = "gateway: the choice by a trusted caller's header"
    inline = sum(cost for what, cost in looks.items() if what not in (coin, header))
    for what, choice in (("by our own coin", coin), ("by a trusted caller's header", header)):
        whole = inline + looks[choice]
        yield Row(f"traces: an open that is not chosen, {what}", f"{whole / 1e3:.2f} µs", "all processes; aim 1 µs")
    for what, cost in looks.items():
        yield Row(f"  {what}", f"{cost:.0f} ns")
    for name, one in figures["scrapes"].items():
        yield Row(f"a scrape of {name}", f"{one['cpu_ms']:.1f} ms CPU", f"{one['lines']:,.0f} lines; aim 5 ms")


SECTION: Final = Section("observing", "what traces and metrics cost", _measure, rows)
