"""How long an open over HTTP takes at a given load.

Question: what do p50 to p99.9 look like at a quarter, a half, three quarters and nine tenths of what the machine
carries? Workload: envelopes of 20 shares, opened round robin by 20 users over 256 connections, one SET with one server;
every open wins. First a closed loop finds the saturating rate, then requests come as a Poisson process at each share of
it (open loop: a latency counts from when the request was due, so that a stall counts for all requests that were due
meanwhile). Sketch: gathering a batch, a commit of some 2 ms and the way back are 5 ms without a queue; with both cores
half busy a queue of the same length comes on top; near saturation queues grow with 1 / (1 - load). The generator shares
the cores and takes 20 to 60 µs an open of them. Ends with the audit, and every `opened` is compared with the claim log.
"""

import asyncio
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from errors import InvariantBroken
from installation.access import Access
from installation.finding import find
from loadtest.bench.figures import Bench, Figures, Row
from loadtest.cpu_steal import CpuSteal
from loadtest.histogram import Histogram, merged
from loadtest.idle_stack import idle_stack
from loadtest.openloop.job import OPEN, Finding, Job, run_job
from loadtest.openloop.opens import Guests, guests
from loadtest.run_proof import all_paid, audit_when_paid, contradicted
from loadtest.svg import svg_axes
from local.config import StackConfig

if TYPE_CHECKING:
    from loadtest.tally import Won

SHARES_OF_SATURATION: Final = (0.25, 0.50, 0.75, 0.90)
CONNECTIONS: Final = 256
PERCENTILES: Final = (50, 90, 99, 99.9)
MOST_PER_S: Final = 14_000.0
"""Envelopes are made for this rate of the first closed loop; one that exceeds it ends early."""
MARGIN: Final = 1.5
"""The next closed loop may be faster by this factor."""
WARM_S: Final = 1.0
QUICK: Final = {"seconds": 1.0, "rounds": 5, "saturation_s": 1.0}
FULL: Final = {"seconds": 15.0, "rounds": 3, "saturation_s": 6.0}


@dataclass(frozen=True)
class Went:
    """One finished job; `stolen` is the part of the cores' time that the host gave to others meanwhile."""

    finding: Finding
    latency: Histogram
    stolen: float


class Run:
    """Jobs one after the other against one stack, each on envelopes of its own that are still unopened."""

    def __init__(self, access: Access, scratch: Path) -> None:
        self._access = access
        self._scratch = scratch
        self.won: list[Won] = []
        self._most_per_s = MOST_PER_S

    async def saturation(self, seconds: float) -> float:
        """Return opens/s of a closed loop."""
        went = await self._job(None, seconds, int(self._most_per_s * seconds))
        self._most_per_s = MARGIN * went.finding.rate
        return went.finding.rate

    async def at(self, rate: float, seconds: float) -> Went:
        """Send `rate` opens a second for `seconds` and return what came of it."""
        return await self._job(rate, seconds, int(1.1 * rate * seconds) + 1_000)

    async def _job(self, rate: float | None, seconds: float, opens: int) -> Went:
        some: Guests = await guests(self._access, opens)
        await all_paid(self._access)
        stolen = CpuSteal()
        finding, tally = await run_job(Job(self._access.gateway_url, some, rate, seconds, CONNECTIONS), self._scratch)
        went = Went(finding, tally.latency[OPEN], stolen.part())
        refused = {name: count for name, count in tally.results[OPEN].items() if name != "opened"}
        if tally.failures or refused:
            raise InvariantBroken("every_open_wins", f"at {rate or 'saturation'}: {tally.failures} {refused}")
        self.won += tally.won
        return went


async def measure(bench: Bench) -> Figures:
    """Return {"saturation_per_second", "loads": [{"share", "rate", "p50_ms", …, "p99_ms_runs", "stolen_runs"}]}."""
    size = QUICK if bench.quick else FULL
    folder = await asyncio.to_thread(bench.scratch, "latency")
    async with idle_stack(StackConfig(data=folder / "data", port=0, sets=1, servers=1, notify=lambda _: None)):
        access = find(folder / "data")
        run = Run(access, folder)
        bench.say("warming up")
        await run.saturation(WARM_S)
        rates: list[float] = []
        seen: dict[float, list[Went]] = {share: [] for share in SHARES_OF_SATURATION}
        for number in range(int(size["rounds"])):
            bench.say(f"round {number + 1}: saturation")
            rates.append(await run.saturation(size["saturation_s"]))
            for share, runs in seen.items():
                bench.say(f"round {number + 1}: {share:.0%} of {rates[-1]:,.0f} opens/s")
                runs.append(await run.at(share * rates[-1], size["seconds"]))
        bench.say("payouts and audit")
        proof = await audit_when_paid(access)
        wrong = await contradicted(access, run.won)
    if wrong:
        raise InvariantBroken("what_was_told_stands", f"{len(wrong)} contradictions; the first: {wrong[0]}")
    bench.audit("latency", holds=proof.holds and proof.sums.in_flight == 0, unreconciled_fen=proof.unreconciled_fen)
    return {
        "saturation_per_second": statistics.median(rates),
        "connections": CONNECTIONS,
        "seconds": size["seconds"],
        "loads": [_figures(share, runs) for share, runs in seen.items()],
    }


def _figures(share: float, runs: list[Went]) -> dict[str, Any]:
    """Percentiles are the medians of the rounds; the maximum is that of all."""
    found: dict[str, Any] = {
        "share": share,
        "rate": statistics.median(one.finding.rate for one in runs),
        "opens": sum(one.finding.answered for one in runs),
        "client_cpu_us": statistics.median(one.finding.client_cpu_us for one in runs),
    }
    for percent in PERCENTILES:
        found[f"p{percent}_ms"] = statistics.median(one.latency.percentile(percent) for one in runs)
    found["max_ms"] = max(one.latency.max_ms for one in runs)
    found["p99_ms_runs"] = [one.latency.percentile(99) for one in runs]
    found["stolen_runs"] = [one.stolen for one in runs]
    whole = merged(one.latency for one in runs)
    found["curve"] = [[percent, whole.percentile(percent)] for percent in _CURVE]
    return found


_CURVE: Final = (1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 98, 99, 99.5, 99.8, 99.9, 99.95, 99.99, 100)


def rows(figures: Figures) -> Iterable[Row]:
    """One line for saturation, one for each load."""
    saturation = figures["saturation_per_second"]
    yield Row(
        "opens over HTTP, saturated", f"{saturation:,.0f} /s", f"closed loop, {figures['connections']} connections"
    )
    for one in figures["loads"]:
        more = ", ".join(f"p{percent} {one[f'p{percent}_ms']:.1f}" for percent in PERCENTILES if percent != 99)  # noqa: PLR2004
        yield Row(
            f"open loop at {one['share']:.0%} ({one['rate']:,.0f} opens/s)",
            f"p99 {one['p99_ms']:.1f} ms",
            f"{more}, max {one['max_ms']:.1f} ms; the host took {_percents(one.get('stolen_runs', ()))} of the cores",
        )


def _percents(parts: Iterable[float]) -> str:
    return ", ".join(f"{part:.0%}" for part in parts) or "an unknown part"


def plots(figures: Figures, folder: Path) -> Iterable[str]:
    """Draw each load's latencies by percentile, in nines."""
    nines = [0, 50, 90, 99, 99.9, 99.99]
    with svg_axes(folder / "latency-by-load.svg", 8.0, 4.5) as axes:
        for one in figures["loads"]:
            curve = [(1 / (1 - percent / 100), ms) for percent, ms in one["curve"] if percent < 100]  # noqa: PLR2004
            axes.plot(*zip(*curve, strict=True), marker=".", label=f"{one['share']:.0%}: {one['rate']:,.0f} opens/s")
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xticks([1 / (1 - nine / 100) for nine in nines], [f"{nine:g}" for nine in nines])
        axes.set_xlabel("percent of opens")
        axes.set_ylabel("ms from the intended time to the answer")
        axes.set_title("Latency of opens over HTTP, open loop, by share of the saturating rate")
        axes.grid(alpha=0.3)
        axes.legend()
    return ["latency-by-load.svg"]


def p99_ms_at(figures: Figures, share: float) -> float:
    """Return the p99 at a share of saturation; KeyError when it was not measured."""
    for one in figures["loads"]:
        if one["share"] == share:
            return float(one["p99_ms"])
    raise KeyError(share)
