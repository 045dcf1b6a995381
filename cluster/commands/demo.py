"""`hongbao demo`: real groups play against a running stack, or one started for it; ends with an audit."""

import asyncio
import json
import sys
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from cluster.access import Access, reach
from cluster.demo.client import Phones
from cluster.demo.show import show
from cluster.demo.story import Story, play


@click.command("demo")
@click.option("--data", type=click.Path(path_type=Path, file_okay=False), help="Data folder of the stack.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def command(*, data: Path | None, as_json: bool) -> None:
    """Play 34 rounds of a group of 20, a crowd of 500, and three special envelopes; then prove the money.

    Uses the stack that runs on the data folder, or starts one and stops it again. Exit status 0 only if everything
    adds up to the fen.
    """
    story = asyncio.run(_run(data))
    if as_json:
        click.echo(json.dumps(story.as_json(), ensure_ascii=False))
    else:
        show(story, Console())
    sys.exit(0 if story.holds else 1)


async def _run(data: Path | None) -> Story:
    async with reach(data) as access:
        return await _play(access)


async def _play(access: Access) -> Story:
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("starting")
        async with Phones(access.gateway_url, access.token) as phones, access.wallet() as wallet:
            return await play(
                phones,
                lambda user, fen: wallet.deposit(access.order_no(), user, fen),
                access.audit,
                lambda title, done, total: progress.update(task, description=title, completed=done, total=total),
            )
