"""`hongbao retention`: what is kept beside the live money, by which rule, and removing what is past it."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Column, Table

from cli.job_record import on_record
from installation import data_folder
from installation.finding import find_current
from retention import kinds
from retention.held import Held, Kind
from retention.rules import RetentionSettings
from runtime import settings
from runtime.login import login
from runtime.reporting import data_option, json_option, print_report, working
from runtime.tables import print_table
from runtime.wording import counted
from schema.jobs import Job

_folder = click.option(
    "--folder",
    metavar="PLACE",
    default="",
    help="Where the backups are: a folder, or s3://bucket/prefix.  [default: `backups` of the installation file]",
)


@click.group("retention")
def command() -> None:
    """Show how long everything is kept, and remove what is past its rule."""


@command.command("show")
@_folder
@data_option
@json_option
def show(*, folder: str, data: Path | None, as_json: bool) -> None:
    """Show each kind that is kept: how much, since when, by which rule, and what is past it. Changes nothing.

    Exit status 1 if a kind could not be looked at.
    """
    with working("looking at what is kept"):
        found = asyncio.run(kinds.show(_kinds(data, folder)))
    _print(found, as_json=as_json, removed=False)


@command.command("apply")
@_folder
@click.option("--yes/--dry-run", "sure", default=False, help="Remove it; a dry run unless --yes is given.")
@click.option("--who", default=login, help="Your name, for the journal.  [default: the account]")
@data_option
@json_option
def apply(*, folder: str, sure: bool, who: str, data: Path | None, as_json: bool) -> None:
    """Remove what is past its rule; without --yes only say what would go.

    Each kind has a line in the journal, retention-YEAR.jsonl in the data folder, before anything of it goes. Archives
    are never removed. Exit status 1 if a kind could not be looked at or removed; the others are, all the same.
    """
    with on_record(data, Job.RETENTION if sure else None) as run, working("looking at what is kept"):
        every = _kinds(data, folder)
        work = kinds.apply(every, data_folder.locate(data).path, who) if sure else kinds.show(every)
        found = asyncio.run(work)
        run.failure = "; ".join(f"{one.kind}: {one.why}" for one in found if one.code)
    _print(found, as_json=as_json, removed=sure)


def _kinds(data: Path | None, folder: str) -> list[Kind]:
    rules = settings.load(RetentionSettings)
    return list(kinds.kinds(find_current(data), rules, data_folder.locate(data).path, folder))


def _print(found: list[Held], *, as_json: bool, removed: bool) -> None:
    report: dict[str, Any] = {
        "kinds": [one.as_json() for one in found],
        "past_bytes": sum(one.past_bytes for one in found),
        "removed": removed,
    }
    print_report(report, as_json=as_json, show=lambda console: _show(found, console, removed=removed))
    sys.exit(1 if any(one.code for one in found) else 0)


_READABLE = 16
"""Its texts are short, so that a row takes several lines only on a terminal that is narrower than 80 columns."""


def _show(found: list[Held], console: Console, *, removed: bool) -> None:
    gone = "removed" if removed else "past it"
    any_gone = any(one.code or one.past for one in found)
    head: tuple[str | Column, ...] = (
        "kind",
        "held",
        Column("size", justify="right"),
        "oldest",
        "rule",
        *([gone] if any_gone else []),
    )
    table = Table(*head, box=None, pad_edge=False)
    for one in found:
        if one.code:
            table.add_row(one.kind, "?", "", "", one.rule, one.why)
            continue
        oldest = "" if one.oldest is None else f"{one.oldest:%Y-%m-%d}"
        past = [f"{one.past:,} ({_mb(one.past_bytes)})" if one.past else ""] if any_gone else []
        table.add_row(one.kind, f"{one.items:,}", _mb(one.bytes), oldest, one.rule, *past)
    print_table(console, table, readable=_READABLE)
    items = sum(one.past for one in found)
    size = _mb(sum(one.past_bytes for one in found))
    if removed:
        console.print(f"{counted(items, 'item')} removed, {size}", highlight=False)
    elif items:
        words = f"{counted(items, 'item')} past the rules, {size}: `retention apply --yes` removes them"
        console.print(words, highlight=False)


def _mb(count: int) -> str:
    return f"{count / 1e6:,.1f} MB"
