"""`hongbao audit`: proves the invariants (docs/contract.md) over all SETs and the wallet, while traffic runs."""

import asyncio
import sys
from datetime import date, datetime
from pathlib import Path

import click
from rich.console import Console

from audit.report import Report
from cli.job_record import on_record
from envelope.money import yuan
from installation.finding import current
from runtime.reporting import data_option, json_option, print_report
from runtime.wording import counted
from schema.jobs import Job

SHOWN = 20
"""Violations printed; --json has more."""


@click.command("audit")
@click.option("--day", type=click.DateTime(["%Y-%m-%d"]), help="The envelopes of one business day alone.")
@click.option("--provider", is_flag=True, help="Claims may have been paid out by a payment provider.")
@click.option("--full", is_flag=True, help="Read all days again, also those that were proven before.")
@data_option
@json_option
def command(*, day: datetime | None, provider: bool, full: bool, data: Path | None, as_json: bool) -> None:
    """Replay every envelope from its seed and match every fen with the wallet.

    Reads consistent snapshots, so it may run beside any traffic; days are detached and dropped after it. Exit status 1
    if there is a violation; each one names the envelope, order or account. With --day, users' balances and what stands
    on other days are not looked at.

    A day on which everything is final is read once. Later audits have the databases compute its digest again, and read
    it only if that differs; of one that is dropped they compare the archive's manifest and the sizes of its files. The
    bytes are read by `hongbao archive verify`. How an audit of all days has ended is noted (`hongbao jobs`).
    """
    with on_record(data, Job.AUDIT if day is None else None) as run:
        found = asyncio.run(_audit(data, None if day is None else day.date(), provider=provider, full=full))
        run.failure = found.failure
    print_report(found.as_json(), as_json=as_json, show=lambda console: show(found, console))
    sys.exit(0 if found.holds else 1)


async def _audit(data: Path | None, only: date | None, *, provider: bool, full: bool) -> Report:
    console = Console(stderr=True)
    with console.status("auditing") as status:
        access = await current(data)
        return await access.audit(
            lambda name, seen: status.update(f"auditing {name}: {counted(seen, 'envelope')}"),
            only=only,
            provider=provider,
            full=full,
        )


def show(proof: Report, console: Console) -> None:
    """Print the sums, then the first SHOWN violations."""
    sums = proof.sums
    console.print(
        f"{counted(sums.envelopes, 'envelope')}, {counted(sums.claims, 'claim')}, "
        f"{counted(sums.accounts, 'account')} in {proof.seconds:.1f} s"
    )
    console.print(
        f"{yuan(sums.paid_in_fen)} yuan paid in = {yuan(sums.claimed_fen)} claimed + {yuan(sums.refunded_fen)} refunded"
        f" + {yuan(sums.open_fen)} still open"
    )
    console.print(f"{yuan(sums.credited_fen)} credited, {yuan(sums.in_flight_fen)} in flight, {sums.stuck} stuck")
    if proof.parts_by_digest:
        some = "1 part of a day was" if proof.parts_by_digest == 1 else f"{proof.parts_by_digest} parts of days were"
        console.print(f"{some} not read again: unchanged since an audit read it whole (--full reads everything)")
    for violation in proof.violations[:SHOWN]:
        console.print(f"[red]{violation.check}[/red] {violation.subject}: {violation.detail}")
    if proof.count > SHOWN:
        console.print(f"… and {proof.count - SHOWN} more; --json shows up to 1,000")
    if proof.holds:
        console.print("[green]everything adds up[/green]: 0 fen unreconciled")
    else:
        console.print(f"[red]{proof.failure}[/red]")
