"""The section: starts and fills a stack, lets the contenders take turns, waits for payouts, audits; and its rows."""

from collections.abc import Iterable
from functools import partial
from math import ceil
from statistics import median

from loadtest.baseline_server import Mode
from loadtest.bench.figures import Bench, Figures, Row, interleaved
from loadtest.bench.http import turns
from loadtest.bench.http.http_bench import HttpBench, started_http_bench
from loadtest.bench.workloads import HOT_SHARES
from loadtest.run_proof import all_paid
from loadtest.wrk import client as wrk
from loadtest.wrk import prepared

_CREATES_PER_S = 100_000
"""Many times what can be made here, so that the sender's money does not run out; money costs nothing."""


async def measure(bench: Bench) -> Figures:
    """Start a stack of one SET and one server, fill it, let the contenders take turns, drain, audit."""
    # Envelopes that nobody opens fill the memory of a SET like any other: above 130,000 those prepared for the next
    # turn leave memory for them, and its opens are slow. So creates have short turns (docs/performance/notebook.md).
    seconds, create_s = (2.0, 2.0) if bench.quick else (3.0, 1.0)
    opens = wrk.prepared_for(turns.WARM_UP_S) + bench.rounds * wrk.prepared_for(seconds)
    many, hot = ceil(opens / prepared.SHARES), ceil(opens / HOT_SHARES)
    bench.say("starting a stack")
    async with started_http_bench(bench.scratch("http"), seconds, create_s) as http:
        bench.say(f"making {many:,} envelopes of {prepared.SHARES} and {hot} of {HOT_SHARES:,} shares")
        await prepared.pay_in(http.access, int(bench.rounds * create_s * _CREATES_PER_S))
        await http.prepare("many", many, prepared.SHARES)
        await http.prepare("hot", hot, HOT_SHARES)
        bench.say("pools of the lock")
        pools = {key: await turns.pools(http, key) for key in http.opens}
        bench.say("warming up")
        for key in http.opens:
            await turns.warm_up(http, key)
        bench.say("opens")
        found = await _compete(bench, http, {key: max(rates, key=rates.__getitem__) for key, rates in pools.items()})
        bench.say("audit")
        await all_paid(http.access)
        report = await http.access.audit()
    if report.sums.claims < http.answered:
        http.offs.append(f"{http.answered} opens were answered and {report.sums.claims} are in the claim log")
    bench.audit("http", holds=report.holds and not http.offs, unreconciled_fen=report.unreconciled_fen)
    return {
        "contenders": found,
        "opens_per_second": found["ours"]["median"],
        "creates_per_second": found["create"]["median"],
        "p50_ms": {name: median(one.p50_ms for one in fired) for name, fired in http.seen.items()},
        "p99_ms": {name: median(one.p99_ms for one in fired) for name, fired in http.seen.items()},
        "opens": http.answered,
        "pools": {key: {str(pool): rate for pool, rate in rates.items()} for key, rates in pools.items()},
        "connections": wrk.CONNECTIONS,
        "audit_holds": report.holds,
        "unreconciled_fen": report.unreconciled_fen,
        "offs": http.offs,
    }


async def _compete(bench: Bench, http: HttpBench, pool: dict[str, int]) -> Figures:
    """Let each contender have a turn in every round."""
    async with http.served(Mode.CONSTANT) as constant, http.served(Mode.CONSTANT_OWN) as own:
        contenders = {
            "ours": partial(turns.ours, http, "many"),
            "create": partial(turns.create, http),
            "pessimistic": partial(turns.pessimistic, http, "many", pool["many"]),
            "ours_hot": partial(turns.ours, http, "hot"),
            "pessimistic_hot": partial(turns.pessimistic, http, "hot", pool["hot"]),
            "constant": partial(turns.constant, http, "constant", constant.url),
            "constant_own_loop": partial(turns.constant, http, "constant_own_loop", own.url),
        }
        return await interleaved(bench.rounds, contenders)


def rows(figures: Figures) -> Iterable[Row]:
    """Show the contenders beside ours."""
    for name, seen in figures["contenders"].items():
        latency = f"p50 {figures['p50_ms'][name]:.1f} ms, p99 {figures['p99_ms'][name]:.1f} ms"
        mine = "ours_hot" if name.endswith("_hot") else "ours"
        ours = figures["contenders"][mine]["median"]
        beside = "" if name == mine else f", ours / this: {ours / seen['median']:.2f}"
        yield Row(f"{NAMES[name]}, {figures['connections']} connections", f"{seen['median']:,.0f} /s", latency + beside)
    for one in figures["offs"]:
        yield Row("HTTP", "fails", one)


NAMES = {
    "ours": "opens over HTTP, many envelopes",
    "create": "creates over HTTP",
    "pessimistic": "pessimistic lock behind the same server, many envelopes",
    "ours_hot": "opens over HTTP, one hot envelope",
    "pessimistic_hot": "pessimistic lock behind the same server, one hot envelope",
    "constant": "aiohttp answering a constant",
    "constant_own_loop": "our connection loop answering a constant",
}
