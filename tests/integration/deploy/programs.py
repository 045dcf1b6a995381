"""Programs that check files of deploy/: on PATH, or from Debian."""

import asyncio
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from errors import Refused
from machine.account import server_account
from machine.debian_programs import find_program

RUN_S = 100


async def check(package: str, folder: Path, *argv: str, env: dict[str, str] | None = None) -> str:
    """Run a program of a Debian package that must end with 0; returns what it says. Skips where it cannot be had."""
    try:
        program = await find_program(argv[0], server_account(), folder, package=package)
    except Refused as error:
        pytest.skip(error.detail)
    return await run(str(program.path), *argv[1:], env={**program.env(), **(env or {})})


async def run(*argv: str, env: dict[str, str] | None = None) -> str:
    """Run a command that must end with 0; returns what it says."""
    done = await asyncio.to_thread(_run, argv, {**os.environ, **(env or {})})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def _run(argv: Sequence[str], env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, env=env, capture_output=True, text=True, timeout=RUN_S, check=False)
