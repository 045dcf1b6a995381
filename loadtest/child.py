"""Clients as processes of their own: they die with us, run as we do, and never outlive the call that started them."""

import asyncio
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from cluster.machine.account import Account, server_account
from cluster.machine.checkout import CHECKOUT
from cluster.supervision.child import Child, Command
from cluster.supervision.logfile import LogFile

STOP_S = 3.0
"""locust writes its statistics when it is told to stop."""


def start_child(words: Sequence[str], env: Mapping[str, str], log: Path) -> Child:
    """Start `python WORDS` with `env` over our own environment; the caller stops it."""
    own = server_account()
    path = os.pathsep.join(filter(None, [str(CHECKOUT), os.environ.get("PYTHONPATH", "")]))
    return Child.start(
        Command(
            [sys.executable, "-P", *words],
            {**os.environ, **env, "PYTHONPATH": path},
            Account(own.name, own.uid, own.gid, drop=False),
            LogFile(log),
            folder=CHECKOUT,
        )
    )


async def stop_children(children: Sequence[Child]) -> None:
    """Tell all to stop; kill what does not."""
    await asyncio.gather(*(one.stop((signal.SIGTERM, STOP_S)) for one in children))


async def run_child(words: Sequence[str], env: Mapping[str, str], log: Path) -> int:
    """Run `python WORDS` to its end and return its exit status; cancelled, it is stopped first."""
    child = start_child(words, env, log)
    try:
        return await child.wait()
    finally:
        await asyncio.shield(stop_children([child]))
