"""Real processes at the price of a fork: for tests that kill a tool at a point, or call a command as a shell would.

A server process has imported the tools once; `run` lets it fork a child that calls a function and ends. What the child
does is what a program of its own does: killed by `os._exit` or a signal, the kernel closes its connections and gives
back its locks. Only the second or two that an interpreter takes to import everything is saved.
"""

import asyncio
import contextlib
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

PRELOADED = [
    "cli.table", "installation.access", "installation.finding", "rotation.wiring", "cli.archives",
    "cli.commands.rotate",
    "archive.restore", "moving.moves", "rotation.daemon", "tests.integration.moving.move_and_die",
    "tests.faults.rotate_and_die", "tests.integration.users.forget_and_die",
]  # fmt: skip


@dataclass(frozen=True)
class Ended:
    """How a child ended and what it wrote."""

    status: int
    out: str
    err: str


@cache
def _context() -> ForkServerContext:
    context = get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    return context


async def run(
    work: Callable[..., object], *args: Any, env: Mapping[str, str] | None = None, timeout_s: float = 90.0
) -> Ended:
    """Call `work(*args)` in a child and wait for its end; an exception is exit status 1, `sys.exit` as ever."""
    with tempfile.TemporaryDirectory(prefix="hongbao-fork-") as folder:
        told = [Path(folder) / "out", Path(folder) / "err"]
        environ = {**os.environ, **(env or {})}
        child = _context().Process(target=_child, args=(work, args, environ, [str(one) for one in told]))
        await asyncio.to_thread(child.start)
        try:
            async with asyncio.timeout(timeout_s):
                while child.exitcode is None:
                    await asyncio.sleep(0.01)
        finally:
            child.kill()
            child.join()
        status = child.exitcode
        child.close()
        return Ended(status, *(one.read_text() if one.exists() else "" for one in told))


async def hongbao(*words: str, env: Mapping[str, str] | None = None, timeout_s: float = 90.0) -> Ended:
    """Run the `hongbao` command as a shell would."""
    return await run(_hongbao, words, env=env, timeout_s=timeout_s)


def _hongbao(words: tuple[str, ...]) -> None:
    from cli.table import run as command

    sys.argv = ["hongbao", *words]
    command()


def _child(work: Callable[..., object], args: tuple[Any, ...], environ: dict[str, str], told: list[str]) -> None:
    os.environ.clear()
    os.environ.update(environ)
    for path, stream in zip(told, (sys.stdout, sys.stderr), strict=True):
        file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
        os.dup2(file, stream.fileno())
        os.close(file)
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    work(*args)
