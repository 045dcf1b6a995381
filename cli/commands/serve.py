"""`hongbao serve`: one process of an installation in the foreground, for systemd, containers and Kubernetes."""

import os
import sys
from pathlib import Path
from typing import NoReturn

import click

from errors import Refused
from installation.access import Access
from installation.finding import find
from installation.keys import EVENTS, OPS, SECRET
from runtime import sandbox_clock
from runtime.reporting import data_option
from runtime.settings import host_and_port
from wire.keys import GATEWAY, SETNODE, WALLET

ROTATION = "rotation"
KINDS = (GATEWAY, SETNODE, WALLET, ROTATION, EVENTS, OPS)


@click.command("serve")
@click.argument("kind", type=click.Choice(KINDS))
@click.option("--name", default="", help="Which one: a setnode's name in the topology (set-1-a).")
@click.option(
    "--listen", default="", metavar="HOST:PORT", help="Where it listens; a gateway needs it, others have an address."
)
@data_option
def command(*, kind: str, name: str, listen: str, data: Path | None) -> NoReturn:
    """Run one process of the installation in the foreground, under this process ID.

    Its settings come from the installation's files; a variable HONGBAO_… of the environment has precedence. GET
    /healthz says that it lives, /readyz that it may be sent requests. SIGTERM: it takes no new work, finishes what is
    in flight and ends. It logs JSON lines on standard output; why it did not start is a sentence on standard error.
    Databases and memcached must run already, and be of this release's schema: `hongbao migrate`.
    """
    access = find(data)
    # A key that somebody has left in our environment is not given to a process that does not use it.
    left_out = {*SECRET, sandbox_clock.SETTING}
    environ = {variable: value for variable, value in os.environ.items() if variable not in left_out}
    environ.setdefault("HONGBAO_LOG_STREAM", "stdout")
    if kind == ROTATION:
        option = "--installation" if data is not None and data.suffix == ".toml" else "--data"
        words = ["cli", "rotate", "--daemon", *([option, str(data)] if data else [])]
        settings = environ
    else:
        words = [kind]
        settings = {**_settings(access, kind, name, listen), **environ}
    os.execve(sys.executable, [sys.executable, "-P", "-m", *words], settings)  # noqa: S606 - ourselves


def _settings(access: Access, kind: str, name: str, listen: str) -> dict[str, str]:
    settings, known = access.process(kind, name)
    where = listen or os.environ.get("HONGBAO_LISTEN") or known
    if not where:
        raise Refused("listen_missing", f"say where the {kind} listens: --listen HOST:PORT")
    host_and_port(where)
    return {**settings, "HONGBAO_LISTEN": where}
