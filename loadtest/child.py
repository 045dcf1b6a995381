"""Clients as processes of their own: they run as our user, end when we die, and are stopped by the caller."""

import asyncio
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from machine.account import Account, server_account
from machine.checkout import CHECKOUT
from machine.child import Child, Command
from machine.logfile import LogFile

STOP_S = 3.0
"""Time for locust to write its statistics after SIGTERM."""


def start_child(words: Sequence[str], env: Mapping[str, str], log: Path) -> Child:
    """Start `python WORDS` with `env` over our own environment; the caller must stop it (`stop_children`)."""
    own = server_account()
    path = os.pathsep.join(filter(None, [str(CHECKOUT), os.environ.get("PYTHONPATH", "")]))
    return Child.start(
        Command(
            [sys.executable, "-P", *words],
            {**os.environ, **env, "PYTHONPATH": path},
            Account(own.name, own.uid, own.gid, drop_privileges=False),
            LogFile(log),
            folder=CHECKOUT,
        )
    )


async def stop_children(children: Sequence[Child]) -> None:
    """Send SIGTERM to all; kill those that have not ended after STOP_S."""
    await asyncio.gather(*(one.stop((signal.SIGTERM, STOP_S)) for one in children))


async def run_child(words: Sequence[str], env: Mapping[str, str], log: Path) -> int:
    """Run `python WORDS` to its end and return its exit status; cancelled, it is stopped first."""
    child = start_child(words, env, log)
    try:
        return await child.wait()
    finally:
        await asyncio.shield(stop_children([child]))
