"""What a run of `./run loadtest overload` found: figures by key, the steps, and a table for people."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from audit.report import Report
from loadtest.overload.crowd import PATIENCE_S, Played, Seen
from loadtest.overload.faults import Faults
from runtime.tables import print_table

SLACK_MS: Final = 20.0
"""A p99 this far above that of half load counts as settled: it is of 100 ms only."""
SETTLED_SLOTS: Final = 5
"""It must stay there for so many slots."""
LATE: Final = 0.05
"""The share of people above which the crowd itself was late, and the limit."""


class Step(msgspec.Struct, frozen=True):
    """One crowd of `times` the best; `gateways_s`: CPU seconds of all gateways."""

    times: float
    seen: Seen
    gateways_s: float


class Overload(msgspec.Struct, frozen=True):
    """All of it; `holds`: every share of the hot envelope went, and the money adds up."""

    best: float
    """Useful answers a second, open loop."""
    goodput: dict[str, float]
    """By step: useful answers a second, by the best (or by what was offered, where that is less)."""
    goodput_15: float
    goodput_30: float
    served_p99_ms: float
    """At three times the best."""
    refused_p99_ms: float
    gave_up: float
    """The share of requests at three times the best that waited a second for nothing."""
    refusal_us: float
    """CPU of the gateways for a refusal, the peer's end of the loopback included."""
    settle_s: float
    """After the storm, until p99 is what it was at half load."""
    storm_goodput: float
    hot_wait_s: float
    hot_taken: int
    other_set_p99: float
    """p99 of a SET while another one is overloaded, by p99 while that one is well."""
    failover_s: float
    """The longest time without an answer while a setnode is frozen, then killed."""
    restart_failed: int
    """Requests that failed while everything was restarted in turn, at half load."""
    gateway_mb: float
    """Memory of a gateway with `gateway_connections` that all ask."""
    gateway_connections: int
    restart: Seen
    client_was_the_limit: list[str]
    """Steps at which the crowd had no CPU to come in time."""
    steps: list[Step]
    storm: Played
    audit: dict[str, Any]
    holds: bool


def make_report(
    best: float,
    steps: Sequence[Step],
    storm: Played,
    hot: Played,
    taken: int,
    shares: int,
    proof: Report,
    faults: Faults,
) -> Overload:
    """Compute the figures."""
    by_times = {one.times: one for one in steps}
    goodput = {key_of(one): round(one.seen.useful_per_s / min(best, one.seen.rate), 3) for one in steps}
    worst = by_times[3.0].seen
    half, stormy, _ = storm.phases
    return Overload(
        best=round(best, 1),
        goodput=goodput,
        goodput_15=goodput["1.5"],
        goodput_30=goodput["3"],
        served_p99_ms=worst.p99_ms,
        refused_p99_ms=worst.refused_p99_ms,
        gave_up=round(worst.for_nothing, 4),
        refusal_us=round(refusal_us(by_times.get(1.0, by_times[0.5]), by_times[3.0]), 1),
        settle_s=settle_s(storm, half),
        storm_goodput=round(stormy.useful_per_s / best, 3),
        hot_wait_s=round(hot.phases[0].longest_ms / 1000, 3),
        hot_taken=taken,
        other_set_p99=faults.other_set_p99,
        failover_s=faults.failover_s,
        restart_failed=faults.restart_failed,
        gateway_mb=faults.gateway_mb,
        gateway_connections=faults.gateway_connections,
        restart=faults.restart,
        client_was_the_limit=[f"{one.times:g}" for one in steps if one.seen.late > LATE * one.seen.offered],
        steps=list(steps),
        storm=storm,
        audit=proof.as_json(),
        holds=taken == shares and proof.holds and proof.sums.in_flight == 0 and faults.holds,
    )


def key_of(step: Step) -> str:
    """Return the key of a step: 0.5, 1, 1.5."""
    return f"{step.times:g}"


def refusal_us(calm: Step, busy: Step) -> float:
    """Return the CPU of a refusal, µs: what a busy step used beyond its useful answers at the price of a calm one."""
    if not busy.seen.refused:
        return 0.0
    price_s = calm.gateways_s / max(1, calm.seen.useful)
    return max(0.0, busy.gateways_s - price_s * busy.seen.useful) / busy.seen.refused * 1e6


def settle_s(storm: Played, half: Seen) -> float:
    """Return the seconds from the end of the storm until nobody is refused and p99 is that of half load again.

    The length of the calm phase if that does not come.
    """
    first = int(sum(one.seconds for one in storm.phases[:-1]) / storm.slot_s)
    good = 0
    for at in range(first, len(storm.useful)):
        calm = storm.p99_ms[at] <= half.p99_ms + SLACK_MS and not storm.refused[at] and not storm.gave_up[at]
        good = good + 1 if calm else 0
        if good == SETTLED_SLOTS:
            return round((at - first + 1 - SETTLED_SLOTS) * storm.slot_s, 1)
    return storm.phases[-1].seconds


def show(report: Overload, console: Console) -> None:
    """Print it as a table and sentences."""
    title = f"the best is {report.best:,.0f} useful answers a second"
    table = Table(box=SIMPLE, header_style="bold", title=title)
    table.add_column("times", justify="right")
    for column in ("offered/s", "useful/s", "goodput", "refused", "gave up", "p50 ms", "p99 ms", "busy p99"):
        table.add_column(column, justify="right")
    for one in report.steps:
        seen = one.seen
        asked = max(1, seen.offered + seen.repeated)
        cells = (
            *(f"{one.times:g}", f"{seen.rate:,.0f}", f"{seen.useful_per_s:,.0f}", f"{report.goodput[key_of(one)]:.2f}"),
            *(f"{seen.refused / asked:.0%}", f"{seen.for_nothing:.1%}", f"{seen.p50_ms:.0f}", f"{seen.p99_ms:.0f}"),
            f"{seen.refused_p99_ms:.0f}",
        )
        table.add_row(*cells)
    print_table(console, table)
    console.print(
        f"goodput is by the best, or by what was offered; people gave up after {PATIENCE_S:g} s\n"
        f"a refusal costs the gateways {report.refusal_us:.0f} µs; after a retry storm (goodput "
        f"{report.storm_goodput:.2f}) all is calm within {report.settle_s:.1f} s\n"
        f"one hot envelope: {report.hot_taken} shares taken, nobody waited longer than {report.hot_wait_s:.2f} s"
    )
    console.print(
        f"while one SET is overloaded, p99 of another is {report.other_set_p99:.2f} of what it was before\n"
        f"while a setnode is frozen, or killed, nobody waits longer than {report.failover_s:.1f} s for an answer\n"
        f"all processes restarted in turn: {report.restart_failed} of {report.restart.offered:,} requests failed\n"
        f"a gateway takes {report.gateway_mb:.0f} MB at {report.gateway_connections:,} connections that all ask"
    )
    if report.client_was_the_limit:
        steps = ", ".join(report.client_was_the_limit)
        console.print(f"[yellow]the crowd was late[/yellow] at {steps}: it had no CPU left, and measured itself")
    if report.holds:
        console.print("[green]everything adds up[/green]: 0 fen unreconciled")
    else:
        console.print(f"[red]it does not hold[/red]: {report.audit['violation_count']} violations")
