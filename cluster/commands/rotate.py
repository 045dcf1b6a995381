"""`hongbao rotate`: day tables on their way out, by proof; and those to come, made ahead."""

import asyncio
import getpass
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
from cluster.access import find
from cluster.archives import read_day
from cluster.commands import archived
from cluster.commands.rotate_show import show_plan, show_run, show_status
from cluster.commands.rotate_told import told_of, told_of_failure, told_of_survey, without_strangers
from cluster.reporting import data_option, json_option, report, tell
from cluster.rotations import rotations, today_of
from envelope.errors import HongbaoError, Refused
from rotation.daemon import Daemon, DaemonSettings
from rotation.drop import drop_day
from rotation.plan import Alarm, ready
from rotation.register import Operator
from rotation.steps import Result, Rotation
from rotation.survey import Survey, survey
from runtime.http import HttpServer, Readiness, add_probes
from runtime.periodic import Periodic
from runtime.settings import host_and_port, load

T = TypeVar("T")
ROUND_S = 24 * 3600.0
"""A round of the daemon over all SETs, each of which has its own limits in it (rotation/limits.py)."""

_sets = click.option("--set", "only", multiple=True, help="Only this SET (may be repeated).  [default: all]")
_dates = click.option("--date", "dates", multiple=True, help="This business date, as 2026-11-21 (may be repeated).")


@click.group("rotate", invoke_without_command=True)
@click.option("--daemon", is_flag=True, help="Make tables ahead and rotate ordinary days until Ctrl-C.")
@data_option
@click.pass_context
def command(context: click.Context, *, daemon: bool, data: Path | None) -> None:
    """Take past days out of the hot tables, once they are proven; archive, verify and, much later, drop them.

    `plan` says what would happen and what stands in the way, `run` does it, `status` says where the days are, `drop`
    destroys what is verified and past its retention. The daemon (settings HONGBAO_ROTATE_*) does the ordinary days.
    """
    # A lock that is waited for 200 ms at a time is nothing that a person must read; who holds it for long is named.
    stamina.instrumentation.set_on_retry_hooks(())
    if context.invoked_subcommand is None:
        if not daemon:
            click.echo(context.get_help())
            return
        asyncio.run(_serve(data))
    elif daemon or data:
        raise click.UsageError("--daemon stands alone, and --data behind the name of a command")


command.add_command(archived.verify)
command.add_command(archived.restore_)


@command.command("drill")
@click.option("--quick", is_flag=True, help="A tenth of the claims, 50 slots a SET.")
@json_option
def drill(*, quick: bool, as_json: bool) -> None:
    """Play the whole cycle of a day on a stack of its own, with traffic, and print its figures; two minutes or five.

    Exit status 0 when every figure reaches its bar and the audit at the end holds.
    """
    # Imported here: what rotates a real day needs nothing of it.
    from loadtest.drill import command as drilled  # noqa: PLC0415

    found = drilled.drill(quick=quick)
    report(found, as_json=as_json, show=lambda console: drilled.show(found, console))
    sys.exit(0 if found["holds"] else 1)


@command.command("plan")
@_sets
@_dates
@data_option
@json_option
def plan(*, only: tuple[str, ...], dates: tuple[str, ...], data: Path | None, as_json: bool) -> None:
    """Show what would happen to each day, why, and what stands in the way. Changes nothing.

    Exit status 1 when a day that should go cannot, when a SET cannot be asked, or when the tables made ahead run out.
    With --date only the dates given count.
    """
    days = [read_day(text) for text in dates]

    def stands(one: Survey) -> bool:
        asked = [day for day in one.days if not days or day.facts.day in days]
        return (bool(days) or one.alarm is Alarm.OK) and not any(day.in_the_way for day in asked)

    holds, sets = asyncio.run(_survey(data, only, days, stands, look=True))
    report({"holds": holds, "sets": sets}, as_json=as_json, show=lambda console: show_plan(sets, console))
    sys.exit(0 if holds else 1)


@command.command("status")
@_sets
@data_option
@json_option
def status(*, only: tuple[str, ...], data: Path | None, as_json: bool) -> None:
    """Show where each day is on its way, and how many days ahead have tables.

    Exit status 1 on an alarm, and when a SET cannot be asked.
    """
    holds, sets = asyncio.run(_survey(data, only, [], lambda one: one.alarm is Alarm.OK, look=False))
    report({"holds": holds, "sets": sets}, as_json=as_json, show=lambda console: show_status(sets, console))
    sys.exit(0 if holds else 1)


@command.command("run")
@_sets
@_dates
@click.option(
    "--until", type=click.Choice([one.value for one in State if one not in (State.HOT, State.DROPPED)]),
    default=State.VERIFIED.value, show_default=True, help="Go no further than this state.",
)  # fmt: skip
@click.option("--reason", default="rotated by hand", show_default=True, help="Why, for the operation log.")
@data_option
@json_option
def run(
    *, only: tuple[str, ...], dates: tuple[str, ...], until: str, reason: str, data: Path | None, as_json: bool
) -> None:
    """Prove, fence, detach, export and verify: the dates given, or all that are ordinary by now.

    Safe to repeat and to interrupt: the next run goes on. Exit status 1 when a day did not go as far as it should.
    """
    by = Operator(getpass.getuser(), reason)
    days = [read_day(text) for text in dates]

    async def one(rotation: Rotation, day: date, today: date) -> Result:
        return await rotation.run(day, today, by, until=State(until))

    _finish(asyncio.run(_each(data, only, days, one)), as_json=as_json)


@command.command("drop")
@_sets
@click.option("--date", "dates", multiple=True, required=True, help="The business date to drop, as 2026-11-21.")
@click.option("--reason", required=True, help="Why, for the operation log.")
@click.option("--yes", is_flag=True, help="Really: what is dropped lives in the archive alone.")
@data_option
@json_option
def drop(
    *, only: tuple[str, ...], dates: tuple[str, ...], reason: str, yes: bool, data: Path | None, as_json: bool
) -> None:
    """Drop the tables of dates that are verified and past their retention (HONGBAO_ROTATE_RETENTION_DAYS)."""
    if not yes:
        raise Refused("not_confirmed", "nothing was dropped; say --yes if the tables of that date are really to go")
    by, retention = Operator(getpass.getuser(), reason), load(DaemonSettings).rotate_retention_days
    days = [read_day(text) for text in dates]

    async def one(rotation: Rotation, day: date, today: date) -> Result:
        return await drop_day(rotation, day, today, by, retention_days=retention)

    _finish(asyncio.run(_each(data, only, days, one)), as_json=as_json)


def _finish(done: list[dict[str, Any]], *, as_json: bool) -> None:
    holds = all(one["error"] is None for one in done)
    report({"holds": holds, "days": done}, as_json=as_json, show=lambda console: show_run(done, console))
    sys.exit(0 if holds else 1)


async def _survey(
    data: Path | None, only: tuple[str, ...], days: list[date], stands: Callable[[Survey], bool], *, look: bool
) -> tuple[bool, list[dict[str, Any]]]:
    """Tell of each SET, or why it could not be asked; one that is away hides none of the others."""
    access, rules = find(data), load(DaemonSettings).rules
    today, holds, sets = today_of(access), True, list[dict[str, Any]]()
    for one in rotations(access, only):
        try:
            found = await survey(one.target, today, rules, look=look)
        except HongbaoError as error:
            holds = False
            sets.append(told_of_failure(one.target.name, error))
        else:
            holds = holds and stands(found)
            sets.append(told_of_survey(found, days))
    return holds, sets


async def _each(
    data: Path | None,
    only: tuple[str, ...],
    days: list[date],
    work: Callable[[Rotation, date, date], Coroutine[Any, Any, Result]],
) -> list[dict[str, Any]]:
    """Do `work` to each day of each SET; one that fails does not keep the others from theirs."""
    access = find(data)
    done: list[dict[str, Any]] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)

        def progress(name: str, what: str, some: int, of: int) -> None:
            bar.update(task, description=f"{name} {what}", completed=some, total=of or None)

        today = today_of(access)
        for rotation in rotations(access, only, progress):
            chosen = days
            if not chosen:
                try:
                    seen = await survey(rotation.target, today, load(DaemonSettings).rules, look=False)
                except HongbaoError as error:
                    done.append(told_of_failure(rotation.target.name, error))
                    continue
                chosen = ready(seen.days, archives=rotation.archive is not None)
            done += [await told_of(rotation.target.name, day, work(rotation, day, today)) for day in chosen]
    return without_strangers(done)


async def _serve(data: Path | None) -> None:
    """Run the daemon until SIGINT or SIGTERM; what is in flight is rolled back, and the next run goes on."""
    settings = load(DaemonSettings)
    find(data)  # nothing runs there: say so now, not in the log of every round
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    # Looked up at every round: a stack that was started again has other ports, and perhaps other SETs.
    daemon = Daemon(
        rotations=lambda: rotations(find(data)),
        zone=lambda: find(data).topology().zone,
        settings=settings,
    )
    app = web.Application()
    add_probes(app, Readiness())
    async with HttpServer(app, *host_and_port(settings.rotate_listen)) as server:
        tell(f"http://127.0.0.1:{server.port}/metrics")
        periodic = Periodic("rotation", daemon.run_once, interval_s=settings.rotate_every_s, timeout_s=ROUND_S)
        running = asyncio.create_task(periodic.run())
        await stop.wait()
        running.cancel()
        await asyncio.wait({running})
