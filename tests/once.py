"""What all workers of a run share: one initdb, and a range of ports for each worker."""

import asyncio
import fcntl
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from machine import ports
from machine.account import Account
from machine.logfile import LogFile
from machine.postgres.binaries import find_binaries
from machine.postgres.cluster_folder import ClusterFolder

WORKERS = 8
"""More share a range, and try again where two took the same port."""

INITDB = ClusterFolder._initdb
"""As it is in earnest."""


def give_ports() -> None:
    """Give this worker's servers, and those of the processes it starts, ports that no other worker takes."""
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % WORKERS
    size = (ports.HIGHEST - ports.LOWEST) // WORKERS
    first = ports.LOWEST + number * size
    os.environ[ports.RANGE] = f"{first}-{first + size - 1}"


def copy_initdb(patch: pytest.MonkeyPatch, shared: Path, account: Account) -> None:
    """Make every Postgres cluster of this process a copy of one that the run's first worker makes in `shared`.

    Copies have one system identifier: tests that tell clusters apart by it use the fixture `own_initdb`. A copy is made
    by `cp`, which keeps owners and takes two thirds of the CPU that `shutil` takes for its thousand small files.
    """
    template = shared / "initdb"
    with locked(shared / "initdb.lock"):
        if not template.exists():
            asyncio.run(_make(template, account))

    async def copied(self: ClusterFolder, target: Path, secret: Path, _: LogFile) -> None:
        command = ["cp", "--archive", "--reflink=auto", str(template), str(target)]
        await asyncio.to_thread(subprocess.run, command, check=True, timeout=60)
        await asyncio.to_thread(_set_password, self, target, secret.read_text(encoding="ascii"))

    patch.setattr(ClusterFolder, "_initdb", copied)


async def _make(template: Path, account: Account) -> None:
    aside = template.parent / "postgres" / "first"
    await ClusterFolder(aside, find_binaries(account, aside.parent), account).ensure(
        "first", LogFile(aside.parent / "log")
    )
    aside.rename(template)


def _set_password(folder: ClusterFolder, target: Path, password: str) -> None:
    """Give the copy its own superuser's password, in Postgres' single-user mode."""
    command = [*folder.account.command_prefix(), folder.binaries.program("postgres"), "--single", "-D", str(target)]
    command += ["-c", "fsync=off", "-c", "shared_buffers=1MB", "postgres"]
    statement = f"ALTER ROLE postgres PASSWORD '{password}'\n"
    subprocess.run(command, check=True, input=statement, text=True, capture_output=True, cwd="/", timeout=60)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
