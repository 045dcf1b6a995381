"""`hongbao up`: everything on this machine, until Ctrl-C."""

import asyncio
import signal
import sys
import time
from pathlib import Path

import click

from cluster.assembly.config import StackConfig
from cluster.assembly.stack import Stack
from cluster.reporting import data_option, tell

_KILLED = 128
"""A shell adds the signal's number to this; 130 is Ctrl-C."""


@click.command("up")
@click.option("--sets", default=2, show_default=True, help="SETs, each with a Postgres of its own.")
@click.option("--servers", default=2, show_default=True, help="Setnode servers in each SET.")
@click.option("--gateways", default=1, show_default=True, help="Gateways, on PORT, PORT + 1, …")
@click.option("--slots", default=100, show_default=True, help="Slots, fixed by the first start; production: 1000.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address that the gateways listen on.")
@click.option("--port", default=8080, show_default=True, help="Port of the first gateway; 0: any free one.")
@data_option
def command(*, sets: int, servers: int, gateways: int, slots: int, host: str, port: int, data: Path | None) -> None:
    """Start Postgres per SET and for the wallet, memcached, setnodes, wallet and gateways; Ctrl-C stops them.

    All data stays in the data folder and is found again by the next start. Prints the address when ready.
    """
    config = StackConfig(data=data, sets=sets, servers=servers, gateways=gateways, slots=slots, host=host, port=port)
    sys.exit(asyncio.run(_serve(config)))


async def _serve(config: StackConfig) -> int:
    """Run until a signal; returns the exit status: 0 for a stack that was up, else that of who dies of the signal."""
    stop = asyncio.Event()
    heard: list[int] = []

    def hear(number: int) -> None:
        heard.append(number)
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, hear, number)
    running = asyncio.create_task(_run(config, stop))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    try:
        await running
    except asyncio.CancelledError:
        if not heard:
            raise
        config.say("stopped before it was ready")
        return _KILLED + heard[0]
    return 0


async def _run(config: StackConfig, stop: asyncio.Event) -> None:
    begun = time.monotonic()
    config.say("starting; the first time takes a few seconds more")
    starting = asyncio.current_task()
    watch = asyncio.create_task(_cancel_when(stop, starting))
    async with Stack(config) as stack:
        watch.cancel()
        for url in stack.gateway_urls:
            tell(url)
        config.say(
            f"up after {time.monotonic() - begun:.1f} s with {config.sets} SETs; "
            f"data in {stack.folder.path}; Ctrl-C stops it"
        )
        await stop.wait()
        begun = time.monotonic()
        config.say("stopping")
    config.say(f"stopped after {time.monotonic() - begun:.1f} s; all data is kept")


async def _cancel_when(stop: asyncio.Event, task: asyncio.Task[None] | None) -> None:
    """End a start that is not wanted any more."""
    await stop.wait()
    if task is not None:
        task.cancel()
