"""`hongbao up`: everything on this machine, until Ctrl-C."""

import asyncio
import contextlib
import signal
import sys
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import click

from errors import HongbaoError, Refused
from installation import data_folder
from installation.data_folder import DataFolder
from installation.finding import find, secrets_of
from local import clock_move, play, running
from local.config import StackConfig
from local.stack import Stack
from rotation.background import BackgroundRotation
from runtime.reporting import folder_option, print_output
from runtime.wording import counted
from sharding.topology import load
from sharding.topology.service import out_of_service

_KILLED = 128
"""A shell's exit status for a signal is this plus its number; 130 is Ctrl-C."""


@click.command("up")
@click.option("--sets", default=2, show_default=True, help="SETs, each with a Postgres of its own.")
@click.option("--servers", default=2, show_default=True, help="Setnode servers in each SET.")
@click.option("--gateways", default=1, show_default=True, help="Gateways, all at PORT.")
@click.option("--slots", default=100, show_default=True, help="Slots, fixed by the first start; production: 1000.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address that the gateways listen on.")
@click.option("--port", default=8080, show_default=True, help="Port of the first gateway; 0: any free one.")
@click.option(
    "--sandbox",
    is_flag=True,
    help="An installation to try things out, whose clock can be moved ahead (./run clock +24h). A data folder is a "
    "sandbox's from its first start on, or never.",
)
@click.option("--ops/--no-ops", default=True, show_default=True, help="Serve the operator's view, too.")
@click.option("--events/--no-events", default=True, show_default=True, help="Deliver events, too (./run events).")
@click.option(
    "--new-cluster",
    "new_clusters",
    metavar="SERVER",
    multiple=True,
    help="Accept for SERVER (set-1, wallet) another Postgres cluster than before; make an empty one if it is gone.",
)
@click.option(
    "--tls", is_flag=True, help="Setnodes and the wallet speak TLS, with certificates that are made at the start."
)
@click.option(
    "--paused",
    is_flag=True,
    help="Pause every SET before anything serves: after a restore, until the audit holds (./run dba resume set-1).",
)
@folder_option
def command(
    *,
    sets: int,
    servers: int,
    gateways: int,
    slots: int,
    host: str,
    port: int,
    sandbox: bool,
    ops: bool,
    events: bool,
    new_clusters: tuple[str, ...],
    tls: bool,
    paused: bool,
    data: Path | None,
) -> None:
    """Start Postgres per SET and for the wallet, memcached, setnodes, wallet and gateways; Ctrl-C stops them.

    All data stays in the data folder, where the next start finds it. Prints the gateways' address when ready.
    """
    config = StackConfig(
        data=data, sets=sets, servers=servers, gateways=gateways, slots=slots, host=host, port=port,
        ops=ops, events=events, sandbox=sandbox, tls=tls, paused=paused, new_clusters=frozenset(new_clusters),
        play_users=play.users_at(host),
    )  # fmt: skip
    sys.exit(asyncio.run(_serve(config)))


async def _serve(config: StackConfig) -> int:
    """Run until a signal; returns the exit status: 0 if the stack was up, else 128 + the signal's number."""
    stop = asyncio.Event()
    signals: list[int] = []

    def on_signal(number: int) -> None:
        signals.append(number)
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, on_signal, number)
    # Asks for a restart (`local.rolling_restart`); until everything is up there is nothing to restart.
    loop.add_signal_handler(signal.SIGUSR1, lambda: None)
    serving = asyncio.create_task(_run(config, stop))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    try:
        await serving
    except asyncio.CancelledError:
        if not signals:
            raise
        config.notify("stopped before it was ready")
        return _KILLED + signals[0]
    return 0


async def _run(config: StackConfig, stop: asyncio.Event) -> None:
    begun = time.monotonic()
    for line in starting(data_folder.locate(config.data)):
        config.notify(line)
    task = asyncio.current_task()
    watch = asyncio.create_task(_cancel_when(stop, task))
    async with Stack(config) as stack, rotation_running(stack), playing(stack):
        watch.cancel()
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, stack.restart_as_asked)
        print_output(stack.gateway_url)
        config.notify(
            f"up after {time.monotonic() - begun:.1f} s with {counted(config.sets, 'SET')}; "
            f"data in {stack.folder.path}; Ctrl-C stops it"
        )
        if config.sandbox:
            now = clock_move.show(find(stack.folder.path))
            config.notify(f"a sandbox, where it is {now.sentence()}; ./run clock +24h moves its clock ahead")
        for line in what_next(stack.gateway_url, stack.ops_url, config.play_users):
            config.notify(line)
        for name in secrets_of(stack.folder.path).replaced():
            config.notify(
                f"HONGBAO_{name} of the environment is in force, and differs from the {name} of the data folder: "
                "commands need it in their environment, too"
            )
        for sentence in out_of_service(load(stack.folder.topology)).values():
            config.notify(f"still out of service: {sentence}")
        await stop.wait()
        begun = time.monotonic()
        config.notify("stopping")
    config.notify(f"stopped after {time.monotonic() - begun:.1f} s; all data is kept")


def starting(folder: DataFolder) -> list[str]:
    """Return what is said before a start: nothing where the lock is about to say that it is up already."""
    try:
        running.load(folder.running)
    except Refused:
        return ["starting" if folder.inventory.exists() else "starting; the first time takes a few seconds more"]
    return []


def what_next(gateway_url: str, ops_url: str, play_users: Sequence[str]) -> list[str]:
    """Return the addresses for people and the next step, a line each. Nothing is opened for them."""
    if play_users:
        page = f"open {gateway_url} in a browser and be one of {counted(len(play_users), 'user')} to play with"
        step = f"next: ./run demo --watch brings a group chat to life, if you sign in there as {play.VISITOR}"
    else:
        page = f"the page is at {gateway_url}, every call at {gateway_url}/docs"
        step = "next: ./run token USER prints a token to call it with, ./run deposit USER FEN gives the user money"
    operators = [f"for operators: {ops_url} (its keys: ./run keys ops)"] if ops_url else []
    return [page, *operators, f"{step}; ./run doctor says whether all is well"]


@contextlib.asynccontextmanager
async def rotation_running(stack: Stack) -> AsyncIterator[None]:
    """Rotate the days of a stack that can be rotated, in the background, while the block runs."""
    rounds = BackgroundRotation(stack.folder.path, stack.notify, stack.clock)
    rounds.start(at_once=stack.today_occupied)
    try:
        yield
    finally:
        await rounds.stop()


@contextlib.asynccontextmanager
async def playing(stack: Stack) -> AsyncIterator[None]:
    """Give the users to play with their money, if there are any, while the block runs."""
    giving = asyncio.create_task(_give_money(stack))
    try:
        yield
    finally:
        giving.cancel()
        await asyncio.wait({giving})


async def _give_money(stack: Stack) -> None:
    users = stack.config.play_users
    if not users:
        return
    try:
        await play.give_money(find(stack.folder.path), users)
    except HongbaoError as error:
        # The system is up all the same, and the next start tries again.
        stack.notify(f"users to play with have no money: {error.detail}; ./run deposit USER FEN gives them some")


async def _cancel_when(stop: asyncio.Event, task: asyncio.Task[None] | None) -> None:
    """Cancel the start if the operator stops it."""
    await stop.wait()
    if task is not None:
        task.cancel()
