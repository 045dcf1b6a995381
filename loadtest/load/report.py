"""The result of a load test: figures by call, results, failures, the proof; as one JSON object or a table."""

from typing import Any, Final

import msgspec
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from audit.report import Report
from envelope.money import yuan
from loadtest.histogram import Histogram, merged
from loadtest.tally import Tally
from runtime.tables import print_table

SHOWN: Final = 20
BUSY_CLIENT: Final = 0.9
"""Part of a core above which a Python process sends late and measures itself."""
BUSY_SECONDS: Final = 0.2
"""The share of seconds above BUSY_CLIENT from which on the client was the limit."""


class Line(msgspec.Struct, frozen=True):
    """One call, or all of them: how often, how fast. Latencies in ms, rate per second of the whole run."""

    call: str
    requests: int
    rate: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    max_ms: float
    results: dict[str, int]


class LoadReport(msgspec.Struct, frozen=True):
    """All of it. `peak_rate` is the best second; `told` the number of shares that clients received an `opened` for."""

    profile: str
    asked: dict[str, Any]
    seconds: float
    lines: list[Line]
    peak_rate: float
    client_cpu: float
    client_was_the_limit: bool
    failures: dict[str, int]
    told: int
    contradicted: list[str]
    audit: dict[str, Any]
    holds: bool


def make_report(
    profile: str, asked: dict[str, Any], tally: Tally, proof: Report, contradicted: list[str]
) -> LoadReport:
    """Compute the report. It holds when nothing failed, nothing is contradicted, payouts are done, the audit holds."""
    span = tally.span_s
    lines = [_line(call, tally.latency[call], tally.results[call], span) for call in sorted(tally.latency)]
    lines.append(_line("all", merged(tally.latency.values()), {}, span))
    busy = [one.client_cpu for one in tally.seconds.values() if one.client_cpu]
    return LoadReport(
        profile=profile,
        asked=asked,
        seconds=round(span, 1),
        lines=lines,
        peak_rate=float(max((one.latency.total for one in tally.seconds.values()), default=0)),
        client_cpu=round(max(busy, default=0.0), 2),
        client_was_the_limit=sum(one > BUSY_CLIENT for one in busy) > BUSY_SECONDS * len(busy) > 0,
        failures=dict(sorted(tally.failures.items())),
        told=len(tally.won),
        contradicted=contradicted[:SHOWN],
        audit=proof.as_json(),
        holds=not tally.failures and not contradicted and proof.holds and proof.sums.in_flight == 0,
    )


def _line(call: str, latency: Histogram, results: dict[str, int], span: float) -> Line:
    return Line(
        call=call,
        requests=latency.total,
        rate=round(latency.total / span, 1) if span else 0.0,
        p50_ms=round(latency.percentile(50), 2),
        p95_ms=round(latency.percentile(95), 2),
        p99_ms=round(latency.percentile(99), 2),
        max_ms=round(latency.max_ms, 2),
        results=dict(sorted(results.items())),
    )


def show(report: LoadReport, console: Console) -> None:
    """Print it as tables and sentences."""
    table = Table(box=SIMPLE, header_style="bold", title=f"{report.profile}: {report.seconds:.0f} s")
    table.add_column("call")
    for column in ("requests", "per s", "p50 ms", "p95 ms", "p99 ms", "max ms"):
        table.add_column(column, justify="right")
    for line in report.lines:
        figures = (line.rate, line.p50_ms, line.p95_ms, line.p99_ms, line.max_ms)
        table.add_row(line.call, f"{line.requests:,}", *(f"{one:,.1f}" for one in figures))
    print_table(console, table)
    for line in report.lines:
        if line.results:
            console.print(f"{line.call}: " + ", ".join(f"{name} {count:,}" for name, count in line.results.items()))
    console.print(
        f"best second {report.peak_rate:,.0f} requests; busiest client process {report.client_cpu:.0%} of a core"
    )
    if report.client_was_the_limit:
        console.print(
            "[yellow]the client was the limit[/yellow]: its latencies are partly its own; "
            "use --workers, or `loadtest openloop` (docs/loadtest.md)"
        )
    for sentence, count in list(report.failures.items())[:SHOWN]:
        console.print(f"[red]{count} x[/red] {sentence}")
    for sentence in report.contradicted:
        console.print(f"[red]contradicted[/red]: {sentence}")
    _show_money(report, console)


def _show_money(report: LoadReport, console: Console) -> None:
    audit = report.audit
    console.print(
        f"{audit['envelopes']:,} envelopes, {audit['claims']:,} claims; {yuan(audit['paid_in_fen'])} yuan paid in, "
        f"{yuan(audit['in_flight_fen'])} in flight; {report.told:,} shares that clients were told of compared"
    )
    if report.holds:
        console.print("[green]everything adds up[/green]: what was said stands, 0 fen unreconciled")
    else:
        console.print(
            f"[red]it does not hold[/red]: {sum(report.failures.values())} failures, {len(report.contradicted)} "
            f"contradictions, {audit['violation_count']} violations, {audit['in_flight']} payouts in flight"
        )
