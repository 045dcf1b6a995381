"""`hongbao serve`: one process of an installation in the foreground, for systemd, containers and Kubernetes."""

import os
import sys
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit

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
OPS_LISTEN = "127.0.0.1:9000"
"""Where the operator's view is served unless something else is said: for a browser, or a tunnel, on its host."""
KINDS = (GATEWAY, SETNODE, WALLET, ROTATION, EVENTS, OPS)


@click.command("serve")
@click.argument("kind", type=click.Choice(KINDS))
@click.option("--name", default="", help="Which one: a setnode's name in the topology (set-1-a).")
@click.option(
    "--listen", default="", metavar="HOST:PORT", help="Where it listens, if not where the installation file says."
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
        if where := listen or urlsplit(access.rotation_url).netloc:
            environ.setdefault("HONGBAO_ROTATE_LISTEN", where)
        settings = environ
    else:
        words = [kind]
        settings = {**_settings(access, kind, name, listen), **environ}
    os.execve(sys.executable, [sys.executable, "-P", "-m", *words], settings)  # noqa: S606 - ourselves


def _settings(access: Access, kind: str, name: str, listen: str) -> dict[str, str]:
    settings, known = access.process(kind, name)
    where = listen or os.environ.get("HONGBAO_LISTEN") or known or (OPS_LISTEN if kind == OPS else "")
    if not where:
        raise Refused("listen_missing", f"say where the {kind} listens: --listen HOST:PORT")
    host_and_port(where)
    return {**settings, "HONGBAO_LISTEN": where}
