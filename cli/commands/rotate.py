"""`hongbao rotate`: takes past days out of the hot tables, by proof; its daemon also makes coming days' tables."""

import asyncio
import signal
import sys
from collections.abc import Callable, Coroutine
from datetime import date
from pathlib import Path
from typing import Any, TypeVar

import click
import stamina
from aiohttp import web
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from archive.states import State
from cli.archives import read_day
from cli.commands import archive as archived
from cli.commands.rotate_json import day_as_json, failure_as_json, survey_as_json, without_uninvolved_sets
from cli.commands.rotate_text import show_plan, show_run, show_status
from errors import HongbaoError, Refused
from installation.finding import current, find
from loadtest.drill import command as drill_command
from rotation.daemon import Daemon, DaemonSettings
from rotation.drop import drop_day
from rotation.plan import Alarm, ready
from rotation.register import Operator
from rotation.steps import Result, Rotation
from rotation.survey import Survey, survey
from rotation.wiring import rotations
from runtime.http import HttpServer, Readiness, add_probes
from runtime.login import login
from runtime.periodic import Periodic
from runtime.reporting import data_option, json_option, print_output, print_report, working
from runtime.settings import host_and_port, load

T = TypeVar("T")
ROUND_S = 24 * 3600.0
"""Deadline of the daemon's round over all SETs; each SET has its own limits within (rotation/limits.py)."""

_sets = click.option("--set", "only", multiple=True, help="Only this SET (may be repeated).  [default: all]")
_dates = click.option("--date", "dates", multiple=True, help="This business date, as 2026-11-21 (may be repeated).")


@click.group("rotate", invoke_without_command=True)
@click.option("--daemon", is_flag=True, help="Make tables ahead and rotate ordinary days until Ctrl-C.")
@data_option
@click.pass_context
def command(context: click.Context, *, daemon: bool, data: Path | None) -> None:
    """Take past days out of the hot tables, once they are proven; archive, verify and, much later, drop them.

    `plan` shows what would happen and what prevents it, `run` does it, `status` shows the state of each day, `drop`
    destroys what is verified and past its retention. The daemon (settings HONGBAO_ROTATE_*) does `run` by itself.
    """
    # Retries for a lock are not logged: an error names whoever holds it for too long.
    stamina.instrumentation.set_on_retry_hooks(())
    if context.invoked_subcommand is None:
        if not daemon:
            click.echo(context.get_help())
            return
        asyncio.run(_serve(data))
    elif daemon or data:
        raise click.UsageError("--daemon takes no command; write --data after the name of a command")


command.add_command(archived.verify)
command.add_command(archived.restore_)


@command.command("drill")
@click.option("--quick", is_flag=True, help="A tenth of the claims, 50 slots a SET.")
@json_option
def drill(*, quick: bool, as_json: bool) -> None:
    """Play the whole cycle of a day on a separate stack under traffic and print its figures; takes two or five minutes.

    Exit status 0 if every figure reaches its bar and the audit at the end holds. With --quick a speed below its bar is
    a note, and counts as held: bars are those of the reference machine at full size.
    """
    found = drill_command.drill(quick=quick)
    print_report(found, as_json=as_json, show=lambda console: drill_command.show(found, console))
    sys.exit(0 if found["holds"] else 1)


@command.command("plan")
@_sets
@_dates
@click.option("--all", "every_day", is_flag=True, help="A row for each day to come, too.")
@data_option
@json_option
def plan(*, only: tuple[str, ...], dates: tuple[str, ...], every_day: bool, data: Path | None, as_json: bool) -> None:
    """Show what would happen to each day, why, and what prevents it. Changes nothing.

    Exit status 1 if a day that should be rotated cannot be, if a SET does not answer, or if the tables made ahead run
    out. With --date only the given dates count.
    """
    days = [read_day(text) for text in dates]

    def is_well(one: Survey) -> bool:
        selected = [day for day in one.days if not days or day.facts.day in days]
        return (bool(days) or one.alarm is Alarm.OK) and not any(day.in_the_way for day in selected)

    holds, sets = asyncio.run(_survey(data, only, days, is_well, look=True))
    print_report(
        {"holds": holds, "sets": sets},
        as_json=as_json,
        show=lambda console: show_plan(sets, console, every_day=every_day),
    )
    sys.exit(0 if holds else 1)


@command.command("status")
@_sets
@data_option
@json_option
def status(*, only: tuple[str, ...], data: Path | None, as_json: bool) -> None:
    """Show the state of each day, and how many days ahead have tables.

    Exit status 1 on an alarm, or if a SET does not answer.
    """
    holds, sets = asyncio.run(_survey(data, only, [], lambda one: one.alarm is Alarm.OK, look=False))
    print_report({"holds": holds, "sets": sets}, as_json=as_json, show=lambda console: show_status(sets, console))
    sys.exit(0 if holds else 1)


@command.command("run")
@_sets
@_dates
@click.option(
    "--until", type=click.Choice([one.value for one in State if one not in (State.HOT, State.DROPPED)]),
    default=State.VERIFIED.value, show_default=True, help="The last state to reach.",
)  # fmt: skip
@click.option("--reason", default="rotated by hand", show_default=True, help="Why, for the operation log.")
@data_option
@json_option
def run(
    *, only: tuple[str, ...], dates: tuple[str, ...], until: str, reason: str, data: Path | None, as_json: bool
) -> None:
    """Prove, fence, detach, export and verify the given dates, or all days that can be rotated by now.

    Safe to repeat and to interrupt: the next run continues. Exit status 1 if a day did not reach its state.
    """
    by = Operator(login(), reason)
    days = [read_day(text) for text in dates]

    async def one(rotation: Rotation, day: date, today: date) -> Result:
        return await rotation.run(day, today, by, until=State(until))

    _finish(asyncio.run(_each(data, only, days, one)), as_json=as_json)


@command.command("drop")
@_sets
@click.option("--date", "dates", multiple=True, required=True, help="The business date to drop, as 2026-11-21.")
@click.option("--reason", required=True, help="Why, for the operation log.")
@click.option("--yes", is_flag=True, help="Confirm: dropped data exists in the archive only.")
@data_option
@json_option
def drop(
    *, only: tuple[str, ...], dates: tuple[str, ...], reason: str, yes: bool, data: Path | None, as_json: bool
) -> None:
    """Drop the tables of dates that are verified and past their retention (HONGBAO_ROTATE_RETENTION_DAYS)."""
    if not yes:
        raise Refused("not_confirmed", "nothing was dropped; confirm with --yes that these tables are to be destroyed")
    by, retention = Operator(login(), reason), load(DaemonSettings).rotate_retention_days
    days = [read_day(text) for text in dates]

    async def one(rotation: Rotation, day: date, today: date) -> Result:
        return await drop_day(rotation, day, today, by, retention_days=retention)

    _finish(asyncio.run(_each(data, only, days, one)), as_json=as_json)


def _finish(done: list[dict[str, Any]], *, as_json: bool) -> None:
    holds = all(one["error"] is None for one in done)
    print_report({"holds": holds, "days": done}, as_json=as_json, show=lambda console: show_run(done, console))
    sys.exit(0 if holds else 1)


async def _survey(
    data: Path | None, only: tuple[str, ...], days: list[date], is_well: Callable[[Survey], bool], *, look: bool
) -> tuple[bool, list[dict[str, Any]]]:
    """Survey each SET, or report why it does not answer; returns whether all are well, and the surveys as JSON."""
    access, rules = await current(data), load(DaemonSettings).rules
    today, holds, sets = access.today(), True, list[dict[str, Any]]()
    for one in rotations(access, only):
        try:
            with working(f"looking at the days of {one.set_access.name}"):
                found = await survey(one.set_access, today, rules, with_obstacles=look)
        except HongbaoError as error:
            holds = False
            sets.append(failure_as_json(one.set_access.name, error))
        else:
            holds = holds and is_well(found)
            sets.append(survey_as_json(found, days))
    return holds, sets


async def _each(
    data: Path | None,
    only: tuple[str, ...],
    days: list[date],
    work: Callable[[Rotation, date, date], Coroutine[Any, Any, Result]],
) -> list[dict[str, Any]]:
    """Do `work` to each day of each SET, also after a failure; returns what became of each as JSON."""
    access = await current(data)
    done: list[dict[str, Any]] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)

        def progress(name: str, what: str, some: int, of: int) -> None:
            bar.update(task, description=f"{name} {what}", completed=some, total=of or None)

        today = access.today()
        for rotation in rotations(access, only, progress):
            selected = days
            if not selected:
                try:
                    seen = await survey(rotation.set_access, today, load(DaemonSettings).rules, with_obstacles=False)
                except HongbaoError as error:
                    done.append(failure_as_json(rotation.set_access.name, error))
                    continue
                selected = ready(seen.days, archives=rotation.archive is not None)
            done += [await day_as_json(rotation.set_access.name, day, work(rotation, day, today)) for day in selected]
    return without_uninvolved_sets(done)


async def _serve(data: Path | None) -> None:
    """Run the daemon until SIGINT or SIGTERM; a step in flight is rolled back, and the next run continues."""
    settings = load(DaemonSettings)
    find(data)  # refuses now if nothing is installed, instead of in the log of every round
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    # Read again at every round: a stack that was restarted may have other ports and other SETs.
    daemon = Daemon(
        refresh=lambda: find(data).refresh(),
        rotations=lambda: rotations(find(data)),
        zone=lambda: find(data).topology().zone,
        settings=settings,
    )
    app = web.Application()
    add_probes(app, Readiness())
    host, port = host_and_port(settings.rotate_listen)
    async with HttpServer(app, host, port) as server:
        print_output(f"http://{host}:{server.port}/metrics")
        periodic = Periodic("rotation", daemon.run_once, interval_s=settings.rotate_every_s, timeout_s=ROUND_S)
        running = asyncio.create_task(periodic.run())
        await stop.wait()
        running.cancel()
        await asyncio.wait({running})
