"""`hongbao demo`: groups play against the running stack, or one started for it; ends with an audit."""

import asyncio
import sys
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from demo.client import DemoClient
from demo.show import show
from demo.story import Story, play
from installation.access import Access
from local.attach import attach_or_start
from runtime.reporting import data_option, json_option, print_report


@click.command("demo")
@data_option
@json_option
def command(*, data: Path | None, as_json: bool) -> None:
    """Play 34 rounds of a group of 20, a crowd of 500, and three special envelopes; then prove the money.

    Uses the stack that runs on the data folder, or starts one and stops it at the end. Exit status 0 only if
    everything adds up to the fen.
    """
    story = asyncio.run(_run(data))
    print_report(story.as_json(), as_json=as_json, show=lambda console: show(story, console))
    sys.exit(0 if story.holds else 1)


async def _run(data: Path | None) -> Story:
    async with attach_or_start(data) as access:
        return await _play(access)


async def _play(access: Access) -> Story:
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("starting")
        async with DemoClient(access.gateway_url, access.token) as client, access.wallet() as wallet:
            return await play(
                client,
                lambda user, fen: wallet.deposit(access.order_no(), user, fen),
                access.audit,
                lambda title, done, total: progress.update(task, description=title, completed=done, total=total),
            )
