"""The command: measures or reads figures, and prints the plan; with --check it compares the model with a run."""

import json
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TypeVar

import click
import msgspec
import uvloop
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from loadtest.bench.figures import Bench
from loadtest.plan import measured, sizing
from loadtest.plan.check import TOLERANCE, Finding, compare
from loadtest.plan.measured import Measured
from loadtest.plan.sizing import BACKUP_COPIES, Load, Plan
from runtime import logs, process
from runtime.reporting import print_output
from runtime.tables import print_table

T = TypeVar("T")


@click.command("plan")
@click.option("--peak", default=760_000.0, show_default=True, help="Opens a second at the peak.")
@click.option("--daily", default=14.2e9, show_default=True, help="Claims on the busiest day.")
@click.option("--shares", default=5, show_default=True, help="Shares of an envelope, on average.")
@click.option("--retention-days", default=3, show_default=True, help="Days kept hot before they go to the archive.")
@click.option("--target", default=0.6, show_default=True, help="How busy a part may be at the peak, one SET lost.")
@click.option("--set-capacity", type=float, help="Opens a second of one SET, instead of what is measured here.")
@click.option("--bench", "file", type=click.Path(path_type=Path, dir_okay=False), help="Figures of ./run bench --json.")
@click.option("--check", "check", is_flag=True, help="Compare what the model predicts with what is seen.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def command(
    *,
    peak: float,
    daily: float,
    shares: int,
    retention_days: int,
    target: float,
    set_capacity: float | None,
    file: Path | None,
    check: bool,
    as_json: bool,
) -> None:
    """Say how many SETs, servers, gateways and disks a load needs, with one SET to spare.

    The figures come from a bench file or from half a minute of measuring here; every machine is taken to be like this
    one. With --check, exit status 0 means that the p99 predicted and seen differ by no more than 30 %.
    """
    logs.set_up("plan", "error")
    process.tune_gc()
    load = Load(peak, daily, shares, retention_days, target, set_capacity)
    if check:
        sys.exit(_check(as_json=as_json))
    seen = measured.read(file) if file is not None else _scratch(measured.measure)
    made = sizing.plan(load, seen)
    if as_json:
        say = {"load": asdict(load), "measured": msgspec.to_builtins(seen), "plan": asdict(made)}
        click.echo(json.dumps(say, indent=1))
    else:
        print_output(lambda console: _show(load, seen, made, console))


def _scratch(work: Callable[[Bench], Awaitable[T]]) -> T:
    """Run `work` in a scratch folder, on an event loop; progress goes to standard error."""

    async def run() -> T:
        with tempfile.TemporaryDirectory(prefix="hongbao-plan-") as name, Console(stderr=True).status("") as status:
            folder = Path(name)
            folder.chmod(0o755)
            return await work(Bench(folder, quick=True, say=status.update))

    return uvloop.run(run())


def _check(*, as_json: bool) -> int:
    found = _scratch(compare)
    if as_json:
        points = [{**asdict(one), "off": one.off, "holds": one.holds} for one in found.points]
        whole = {"points": points, "stolen": found.stolen, "tolerance": TOLERANCE, "holds": found.holds}
        click.echo(json.dumps(whole, indent=1))
    else:
        print_output(lambda console: _show_check(found, console))
    return 0 if found.holds else 1


def _show_check(found: Finding, console: Console) -> None:
    table = Table("load", "opens/s", "p50 ms", "seen", "p99 ms", "seen", "off", box=SIMPLE, header_style="bold")
    for one in found.points:
        off = f"[{'green' if one.holds else 'red'}]{one.off:+.0%}[/]"
        figures = (one.predicted_p50_ms, one.seen_p50_ms, one.predicted_p99_ms, one.seen_p99_ms)
        table.add_row(f"{one.part:.0%}", f"{one.rate:,.0f}", *(f"{figure:.1f}" for figure in figures), off)
    print_table(console, table)
    console.print(f"The host took {found.stolen:.0%} of the cores meanwhile.")


def _show(load: Load, seen: Measured, made: Plan, console: Console) -> None:
    table = Table("what", "how much", "from", box=SIMPLE, header_style="bold")
    for row in _rows(load, seen, made):
        table.add_row(*row)
    print_table(console, table)
    for note in made.notes:
        console.print(f"[yellow]![/yellow] {note}")


def _rows(load: Load, seen: Measured, made: Plan) -> Iterator[tuple[str, str, str]]:
    yield (
        "SETs",
        f"{made.sets:,}",
        f"one to spare; {made.set_capacity:,.0f} opens/s each, {load.target:.0%} busy at most",
    )
    one_lost = f"{made.opens_per_set_one_lost:,.0f} with one lost"
    yield (
        "opens/s of a SET at the peak",
        f"{made.opens_per_set:,.0f}",
        f"{one_lost}, {made.utilisation_one_lost:.0%} busy",
    )
    if made.p99_ms is not None:
        lost = "" if made.p99_ms_one_lost is None else f"p99 {made.p99_ms_one_lost:.1f} ms with one lost; "
        yield "open inside a SET", f"p50 {made.p50_ms:.1f}, p99 {made.p99_ms:.1f} ms", f"{lost}model of group commit"
    yield "setnode servers", f"{made.servers:,}", f"{made.servers_per_set} a SET; {seen.setnode_us:.0f} µs an open"
    yield "Postgres of a SET", f"{made.postgres_cores_per_set:.1f} cores", f"{seen.postgres_us:.0f} µs an open"
    yield "gateways", f"{made.gateways:,}", f"one to spare; {seen.gateway_us:.0f} µs an open, one core each"
    yield "links", f"{made.links:,}", "every gateway to every setnode"
    yield "connections to a Postgres", f"{made.postgres_connections_per_set}", f"of {made.servers_per_set} setnodes"
    yield "envelopes a day", f"{made.envelopes_per_day:,.0f}", f"{load.shares} shares each"
    tables = f"{made.slots_per_set} slots, {load.retention_days} days"
    yield "tables of a SET", f"{made.leaves_per_set:,}", tables
    yield "a claim table", _bytes(made.leaf_bytes), f"{made.claims_per_leaf:,.0f} claims"
    yield "disk of a SET", _bytes(made.disk_bytes), f"{_bytes(made.disk_per_day_bytes)} a day"
    yield "disk of all SETs", f"{_bytes(made.disk_per_day_all_bytes)} a day", f"{seen.disk_per_claim:.0f} bytes a claim"
    wal = f"{_bytes(made.wal_per_second_at_peak_bytes)}/s at the peak, one SET lost"
    yield "log of a SET", f"{_bytes(made.wal_per_day_bytes)} a day", wal
    copies = _bytes(made.backup_copies_bytes)
    yield "backups of a SET", copies, f"{BACKUP_COPIES} base copies, one a day, before they are packed"
    yield "kept log of a SET", _bytes(made.kept_log_bytes), f"{BACKUP_COPIES} days, back to the oldest copy"
    archive = made.archive_per_day_all_bytes
    yield "archive of all SETs", f"{_bytes(archive)} a day", f"{_bytes(365 * archive)} a year; it is never removed"
    late = _bytes(made.event_log_bytes)
    yield "event log of a SET", late, "at most: a receiver of events is away for seven days"
    live = f"{made.live_envelopes_per_server:,} envelopes awake"
    yield "memory of a setnode", _bytes(made.memory_per_server_bytes), live
    yield "table caches of a Postgres", _bytes(made.postgres_cache_bytes), "besides its buffers"
    hours = f"one pays a day's claims in {made.wallet_day_hours:,.1f} hours"
    yield "wallets", f"{made.wallets}", hours


def _bytes(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1_000:  # noqa: PLR2004 - the next unit
            return f"{count:,.0f} {unit}"
        count /= 1_000
    return f"{count:,.1f} TB"
