"""Prints the demo: a line for each envelope with its shares as bars, then the figures and the audit's verdict."""

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from audit.report import Report
from demo.room import Seen
from demo.scenes import Outcome
from demo.story import Story
from envelope.money import yuan
from runtime.tables import print_table
from runtime.wording import counted

_COLUMNS = {
    "envelope": False, "yuan": True, "shares, in order": False, "best luck": False, "back": True,
}  # fmt: skip
"""Title of each column, and whether it is right-aligned."""
BARS = " ▁▂▃▄▅▆▇█"
WIDTH = 20
"""Shares drawn as bars; more are summed up in words."""


def show(story: Story, console: Console) -> None:
    """Print the outcome as a table, then the figures and the verdict."""
    table = Table(title="What was played", title_justify="left", header_style="bold", box=SIMPLE)
    for name, right in _COLUMNS.items():
        table.add_column(name, justify="right" if right else "left", no_wrap=True)
    for outcome in story.outcomes:
        table.add_row(
            outcome.title,
            yuan(outcome.total_fen),
            _bars(outcome),
            _best(outcome),
            yuan(outcome.refund_fen) if outcome.refund_fen else "",
        )
    print_table(console, table)
    for outcome in story.outcomes:
        if outcome.note:
            console.print(f"[dim]{outcome.title}: {outcome.note}[/dim]")
    sums, audit = story.audit.sums, story.audit
    console.print(
        f"{counted(sum(story.opens.values()), 'open')}: "
        + ", ".join(f"{count} {result}" for result, count in sorted(story.opens.items(), key=lambda one: -one[1]))
    )
    console.print(
        f"{story.opens_per_second:.0f} opens/s; half answered within {story.p50_ms:.1f} ms, "
        f"99 of 100 within {story.p99_ms:.1f} ms"
    )
    console.print(
        f"audit of all {counted(sums.envelopes, 'envelope')} here: {yuan(sums.paid_in_fen)} yuan paid in = "
        f"{yuan(sums.claimed_fen)} claimed + {yuan(sums.refunded_fen)} refunded + {yuan(sums.open_fen)} still open"
    )
    _verdict(audit, console, holds=story.holds)


def show_room(seen: Seen, report: Report, console: Console) -> None:
    """Print what has happened in the room, and the verdict."""
    console.print(
        f"members sent {counted(seen.sent, 'envelope')}, you {seen.visitor_sent}; "
        f"{counted(seen.opened, 'share')} opened, {seen.late} taps came too late"
    )
    for sentence in seen.contradictions:
        console.print(f"[red]{sentence}[/red]")
    _verdict(report, console, holds=report.holds and not seen.contradictions)


def _verdict(audit: Report, console: Console, *, holds: bool) -> None:
    for violation in audit.violations:
        console.print(f"[red]{violation.check}[/red] {violation.subject}: {violation.detail}")
    verdict = "[green]everything adds up[/green]" if holds else "[red]it does not add up[/red]"
    console.print(
        f"{verdict}: {audit.unreconciled_fen} fen unreconciled, {counted(audit.sums.in_flight, 'payout')} in flight"
    )


def _bars(outcome: Outcome) -> str:
    """Draw each share as a bar, in order of opening; the largest is highlighted."""
    if len(outcome.shares) > WIDTH:
        return f"{len(outcome.shares)} from {yuan(min(fen for _, fen in outcome.shares))}"
    most = max((fen for _, fen in outcome.shares), default=1)
    best = outcome.best[0] if outcome.best else None
    cells = []
    for user, fen in outcome.shares:
        bar = BARS[max(1, round(fen / most * (len(BARS) - 1)))]
        cells.append(f"[bold yellow]{bar}[/bold yellow]" if user == best else bar)
    return "".join(cells)


def _best(outcome: Outcome) -> str:
    return f"[yellow]★[/yellow] {outcome.best[0]} {yuan(outcome.best[1])}" if outcome.best else ""
