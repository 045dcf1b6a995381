"""`hongbao demo`: groups play against the running stack, or one started for it; ends with an audit."""

import asyncio
import contextlib
import random
import signal
import sys
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from audit.report import Report
from demo.people import People
from demo.room import Room, Seen
from demo.show import show, show_room
from demo.story import Story, audit_when_drained, play
from installation.access import Access
from local import play as players
from local.attach import attach_or_start
from runtime.reporting import data_option, json_option, print_report


@click.command("demo")
@click.option("--watch", is_flag=True, help="A group chat goes on in the page; you are in it. Ctrl-C ends it.")
@click.option("--minutes", type=click.FloatRange(min=0, min_open=True), help="With --watch: end it after so long.")
@data_option
@json_option
def command(*, watch: bool, minutes: float | None, data: Path | None, as_json: bool) -> None:
    """Play 34 rounds of a group of 20, a crowd of 500, and three special envelopes; then prove the money.

    With --watch nineteen people send and open beside you, in a page whose address is printed.

    Uses the stack that runs on the data folder, or starts one and stops it at the end. Exit status 0 only if
    everything adds up to the fen.
    """
    if watch:
        seen, report = asyncio.run(_watch(data, minutes))
        told = {**seen.as_json(), "audit": report.as_json()}
        print_report(told, as_json=as_json, show=lambda console: show_room(seen, report, console))
        sys.exit(0 if report.holds and not seen.contradictions else 1)
    if minutes is not None:
        raise click.UsageError("--minutes goes with --watch")
    story = asyncio.run(_run(data))
    print_report(story.as_json(), as_json=as_json, show=lambda console: show(story, console))
    sys.exit(0 if story.holds else 1)


async def _watch(data: Path | None, minutes: float | None) -> tuple[Seen, Report]:
    """Let the room go on until Ctrl-C, or for so long; then audit."""
    console, stop = Console(stderr=True), asyncio.Event()
    async with attach_or_start(data, play_users=players.NAMES) as access:
        await players.give_money(access, players.NAMES)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        console.print(
            f"open {access.gateway_url}/#room and sign in as {players.VISITOR}; Ctrl-C ends it", highlight=False
        )
        async with People(access.gateway_url, access.token) as people:
            say = console.print
            luck = random.Random()  # noqa: S311 - no secret
            room = Room(people, players.NAMES, players.VISITOR, luck, lambda line: say(line, highlight=False))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if minutes is None else 60 * minutes):
                    await room.run(stop)
            console.print("waiting for payouts, then the audit")
            return room.seen, await audit_when_drained(access.audit)


async def _run(data: Path | None) -> Story:
    async with attach_or_start(data) as access:
        return await _play(access)


async def _play(access: Access) -> Story:
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("starting")
        async with People(access.gateway_url, access.token) as people, access.wallet() as wallet:
            return await play(
                people,
                lambda user, fen: wallet.deposit(access.order_no(), user, fen),
                access.audit,
                lambda title, done, total: progress.update(task, description=title, completed=done, total=total),
            )
