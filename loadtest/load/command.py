"""The command: reads options, shows progress, writes JSON and pictures; exit status 1 where something does not hold."""

import asyncio
import json
import signal
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click
import msgspec
from rich.console import Console

from loadtest.load.plots import draw
from loadtest.load.report import LoadReport, show
from loadtest.load.run import OPENLOOP, Wanted, run
from loadtest.openloop.schedule import Arrivals
from loadtest.overload import figures as overload_figures
from loadtest.overload import plots as overload_plots
from loadtest.overload import run as overload
from loadtest.profiles import PROFILES
from loadtest.tally import Tally
from runtime import logs
from runtime.reporting import print_output

OVERLOAD = "overload"
_SIGNALLED = 128
"""A shell adds the signal's number to this."""
T = TypeVar("T")


def _profiles() -> str:
    return "\n\n".join(
        [
            "\b",
            *(f"{one.name:<9} {one.what}" for one in PROFILES.values()),
            f"{OPENLOOP:<9} opens at --rate, open loop",
            f"{OVERLOAD:<9} more people than can be served, and how they fare",
        ]
    ).replace("\n\n", "\n")


@click.command("loadtest", epilog=_profiles())
@click.argument("profile", type=click.Choice([*PROFILES, OPENLOOP, OVERLOAD]), default="nye")
@click.option("--quick", is_flag=True, help="A small run that ends within a minute.")
@click.option("--users", type=click.IntRange(1, 100_000), help="People at the peak.")
@click.option("--seconds", type=click.IntRange(2, 86_400), help="How long people are there.")
@click.option("--workers", type=click.IntRange(0, 64), default=0, help="Distributed: a master and N worker processes.")
@click.option("--web", is_flag=True, help="With locust's web page while it runs.")
@click.option(
    "--rate", type=click.FloatRange(1, 1e6), default=1_000.0, show_default=True, help="Open loop: opens a second."
)
@click.option("--connections", type=click.IntRange(1, 10_000), default=256, show_default=True, help="Open loop.")
@click.option(
    "--arrivals",
    type=click.Choice([one.value for one in Arrivals]),
    default="poisson",
    show_default=True,
    help="Open loop.",
)
@click.option("--sets", default=1, show_default=True, help="SETs of the scratch stack.")
@click.option("--servers", default=1, show_default=True, help="Setnode servers in each.")
@click.option(
    "--data", type=click.Path(path_type=Path, file_okay=False), help="Use the stack that runs on this data folder."
)
@click.option("--json", "file", type=click.Path(path_type=Path, dir_okay=False), help="Write the report to FILE.")
@click.option("--report", "pictures", type=click.Path(path_type=Path, file_okay=False), help="Draw plots into FOLDER.")
def command(
    *, file: Path | None, pictures: Path | None, data: Path | None, sets: int, servers: int, **wanted: Any
) -> None:
    """Let simulated people use a whole system, then prove the money.

    Starts a stack in a scratch folder and removes it, unless --data names another. Exit status 0 only if no client
    received a contradiction or an unexpected failure and everything adds up.
    """
    logs.set_up("loadtest", "error")
    if wanted["profile"] == OVERLOAD:
        _overload(file, pictures, data, quick=wanted["quick"], seconds=wanted["seconds"])
    wanted["arrivals"] = Arrivals(wanted["arrivals"])
    report, tally = _until_a_signal(_shown(Wanted(**wanted), data, sets, servers))
    if file is not None:
        file.write_text(json.dumps(msgspec.to_builtins(report), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if pictures is not None:
        draw(tally, report.profile, pictures)
    print_output(lambda console: show(report, console))
    sys.exit(0 if report.holds else 1)


def _overload(
    file: Path | None, pictures: Path | None, data: Path | None, *, quick: bool, seconds: int | None
) -> NoReturn:
    """Play the overload; it has a stack of its own."""
    if data is not None:
        raise click.UsageError("overload starts a stack of its own: it would leave nothing of another one's peak")
    console = Console(stderr=True)
    with console.status(OVERLOAD) as status:

        def say(text: str) -> None:
            status.update(f"{OVERLOAD}: {text}")

        report = _until_a_signal(overload.run(say, quick=quick, seconds=seconds))
    if file is not None:
        file.write_text(json.dumps(msgspec.to_builtins(report), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if pictures is not None:
        overload_plots.draw(report, pictures)
    print_output(lambda console: overload_figures.show(report, console))
    sys.exit(0 if report.holds else 1)


async def _shown(wanted: Wanted, data: Path | None, sets: int, servers: int) -> tuple[LoadReport, Tally]:
    console = Console(stderr=True)
    with console.status(wanted.profile) as status:

        def say(text: str) -> None:
            if console.is_terminal:
                status.update(f"{wanted.profile}: {text}")

        return await run(wanted, data, say, sets=sets, servers=servers)


def _until_a_signal(work: Coroutine[Any, Any, T]) -> T:
    """Run it; SIGTERM and SIGHUP cancel it as Ctrl-C does, so that everything it started is stopped."""
    received: list[int] = []

    async def watched() -> T:
        loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work)

        def stop(number: int) -> None:
            received.append(number)
            task.cancel()

        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, stop, number)
        try:
            return await task
        finally:
            for number in (signal.SIGTERM, signal.SIGHUP):
                loop.remove_signal_handler(number)

    try:
        return asyncio.run(watched())
    except asyncio.CancelledError:
        if not received:
            raise
        click.echo("stopped before it was done", err=True)
        sys.exit(_SIGNALLED + received[0])
