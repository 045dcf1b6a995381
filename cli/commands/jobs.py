"""`hongbao jobs`: when each job (audit, backup, checks) has last succeeded, whether it failed since, or is missed."""

import asyncio
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.console import Console
from rich.table import Table

from errors import Refused
from installation.access import Access
from installation.finding import find
from runtime import postgres
from runtime.reporting import data_option, json_option, print_report
from runtime.tables import print_table
from runtime.wording import duration
from schema import jobs, roles
from schema.jobs import JOBS, Job, JobRun


@click.command("jobs")
@click.option("--forget", metavar="JOB", help="Miss this one no longer: it is not to run any more.")
@data_option
@json_option
def command(*, forget: str | None, data: Path | None, as_json: bool) -> None:
    """Show when each job has last succeeded, and what is wrong with it.

    A job is one of the commands that systemd or Kubernetes runs by the clock. It is known, and missed once it does not
    succeed in time, from its first run on; the audit always. Exit status 1 if one has failed since, or is missed.
    """
    access = find(data)
    if forget is not None:
        asyncio.run(_forget(access, forget))
    found = asyncio.run(_read(access))
    holds = not any(one.failed or one.missed for one in found)
    print_report(
        {"holds": holds, "jobs": [_as_json(one) for one in found]},
        as_json=as_json,
        show=lambda console: _show(found, console),
    )
    sys.exit(0 if holds else 1)


async def _forget(access: Access, job: str) -> None:
    if not await jobs.forget(access.wallet_dsn(roles.OWNER), job):
        raise Refused("unknown_job", f"no job {job[:40]!r} is known; `hongbao jobs` shows those that are")


async def _read(access: Access) -> list[JobRun]:
    async with postgres.asked(access.wallet_dsn()) as connection:
        return await jobs.read(connection)


def _as_json(one: JobRun) -> dict[str, Any]:
    return {**msgspec.to_builtins(one), "missed": one.missed, "command": _command(one)}


def _command(one: JobRun) -> str:
    return JOBS[Job(one.job)].command if one.job in JOBS else ""


def _show(found: list[JobRun], console: Console) -> None:
    table = Table("job", "last succeeded", "now", "command")
    for one in found:
        table.add_row(one.job, _ago(one.succeeded_at), _now(one), _command(one))
    print_table(console, table)
    for one in found:
        if one.failed:
            console.print(f"{one.job} has failed {_ago(one.failed_at)}: {one.failure}", highlight=False)


def _ago(at: datetime | None) -> str:
    if at is None:
        return "never"
    minutes = max(0, int((datetime.now(UTC) - at).total_seconds())) // 60
    return f"{duration(minutes * 60)} ago" if minutes else "just now"


def _now(one: JobRun) -> str:
    if one.failed:
        return "[bold red]failed[/]"
    return "[bold yellow]missed[/]" if one.missed else "[green]as it should be[/]"
