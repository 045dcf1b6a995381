"""`hongbao audit`: proves what must always be true, over all SETs and the wallet, while traffic runs."""

import asyncio
import json
import sys
from pathlib import Path

import click
from rich.console import Console

from audit.report import Report
from cluster.access import find
from envelope.money import yuan

SHOWN = 20


@click.command("audit")
@click.option("--data", type=click.Path(path_type=Path, file_okay=False), help="Data folder of the stack.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def command(*, data: Path | None, as_json: bool) -> None:
    """Replay every envelope from its seed and match every fen with the wallet.

    Reads one consistent cut, so it may run beside any traffic. Exit status 1 when something does not add up; each
    offending envelope, order or account is named.
    """
    report = asyncio.run(_audit(data))
    if as_json:
        click.echo(json.dumps(report.as_json(), ensure_ascii=False))
    else:
        show(report, Console())
    sys.exit(0 if report.holds else 1)


async def _audit(data: Path | None) -> Report:
    console = Console(stderr=True)
    with console.status("auditing") as status:
        return await find(data).audit(lambda name, seen: status.update(f"auditing {name}: {seen} envelopes"))


def show(report: Report, console: Console) -> None:
    """Print the sums, then every violation (the first twenty in full)."""
    sums = report.sums
    console.print(
        f"{sums.envelopes} envelopes, {sums.claims} claims, {sums.accounts} accounts in {report.seconds:.1f} s"
    )
    console.print(
        f"{yuan(sums.paid_in_fen)} yuan paid in = {yuan(sums.claimed_fen)} claimed + {yuan(sums.refunded_fen)} refunded"
        f" + {yuan(sums.open_fen)} still open"
    )
    console.print(f"{yuan(sums.credited_fen)} credited, {yuan(sums.in_flight_fen)} in flight, {sums.stuck} stuck")
    for violation in report.violations[:SHOWN]:
        console.print(f"[red]{violation.check}[/red] {violation.subject}: {violation.detail}")
    if report.count > SHOWN:
        console.print(f"… and {report.count - SHOWN} more; --json shows up to 1,000")
    if report.holds:
        console.print("[green]everything adds up[/green]: 0 fen unreconciled")
    else:
        console.print(f"[red]{report.count} violations[/red], {yuan(report.unreconciled_fen)} yuan unreconciled")
