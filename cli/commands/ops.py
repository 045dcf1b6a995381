"""`hongbao ops`: serves the operator's view of an installation, wherever its parts run."""

import asyncio
import signal
from pathlib import Path

import click

from installation import data_folder
from installation.finding import secrets_of
from installation.keys import OPS
from ops.service import OpsSettings, serving
from runtime.reporting import data_option, print_output
from runtime.settings import load


@click.command("ops")
@click.option("--listen", default="127.0.0.1:0", show_default=True, metavar="HOST:PORT", help="Port 0: any free one.")
@data_option
def command(*, listen: str, data: Path | None) -> None:
    """Serve the operator's view: SETs, waits, refusals, money, one envelope's story; drain, pause, switches.

    `./run` starts one by itself (`./run status` has its address); this is for an installation whose processes are
    started by other means. It prints its address, and Ctrl-C ends it; `./run keys ops` prints the keys to log in with.
    """
    folder = data_folder.locate(data)
    environment = secrets_of(data).environment(OPS, OPS)
    settings = load(OpsSettings, {**environment, "HONGBAO_LISTEN": listen, "HONGBAO_DATA": str(folder.named)})
    asyncio.run(_serve(settings))


async def _serve(settings: OpsSettings) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with serving(settings) as running:
        print_output(running.url)
        await stop.wait()
