"""`hongbao status`: which parts of the installation answer, and what is out of service."""

import asyncio
import sys
from datetime import UTC, datetime
from pathlib import Path

import click
import msgspec
from rich.console import Console
from rich.table import Table

from installation import data_folder
from installation.finding import find_current
from local.status import PartStatus, Status, status
from runtime.reporting import data_option, json_option, print_report, working
from runtime.tables import print_table
from runtime.wording import counted

_SOCKET = "socket"
"""In the place of a path, which stands below the table."""


@click.command("status")
@data_option
@json_option
def command(*, data: Path | None, as_json: bool) -> None:
    """Show each part: does it answer, where, since when, how often it was restarted; then paused SETs and days ahead.

    Exit status 1 if a part does not answer or nothing runs.
    """
    with working("asking all parts"):
        found = asyncio.run(status(data_folder.locate(data), find_current(data)))
    print_report(
        {"up": found.up, **msgspec.to_builtins(found)}, as_json=as_json, show=lambda console: _show(found, console)
    )
    sys.exit(0 if found.up else 1)


def _show(found: Status, console: Console) -> None:
    now = datetime.now(UTC)
    run = f"  up for {_age(found.since, now)}  (process {found.pid})" if found.pid else ""
    console.print(f"{found.gateway_url}{run}", highlight=False)
    if found.sandbox_now:
        console.print(f"a sandbox, where it is {found.sandbox_now}", highlight=False)
    known = ("process", "up for", "restarts") if found.pid else ()
    parts = Table("part", "answers", "address", *known, box=None, pad_edge=False)
    for one in found.parts:
        answers = "[green]yes[/]" if one.answers else f"[bold red]no[/] {one.detail}"
        process = (str(one.pid), _age(one.since, now), str(one.restarts or "")) if found.pid else ()
        parts.add_row(one.name, answers, _SOCKET if _is_path(one) else one.address, *process)
    print_table(console, parts)
    for one in filter(_is_path, found.parts):
        console.print(f"{_SOCKET} of {one.name}: {one.address}", highlight=False, soft_wrap=True)
    for set_ in found.sets:
        console.print(f"{set_.name}: {_service(set_.paused, set_.drained)}; {_days(set_.days_ahead)}", highlight=False)


def _is_path(one: PartStatus) -> bool:
    """Say whether a part's address is a path: long as it may be, it would make each row of the table take two lines."""
    return one.address.startswith("/")


def _service(paused: bool, drained: list[str]) -> str:
    if paused:
        return "[bold yellow]paused[/]"
    return f"[yellow]drained: {', '.join(drained)}[/]" if drained else "in service"


def _days(ahead: int | None) -> str:
    if ahead is None:
        return "its tables are unknown, Postgres does not answer"
    return "[bold red]today has no tables[/]" if ahead < 0 else f"tables for {counted(ahead, 'day')} after today"


def _age(since: str, now: datetime) -> str:
    seconds = max(0, int((now - datetime.fromisoformat(since)).total_seconds()))
    days, rest = divmod(seconds, 86_400)
    hours, rest = divmod(rest, 3_600)
    minutes, seconds = divmod(rest, 60)
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
