"""Commands of the machine's own (`ip`), run within a deadline."""

import asyncio
import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from errors import Refused, Unavailable
from hosts.limits import COMMAND_S

NAMESPACES = Path("/run/netns")
"""Where `ip netns` keeps the names."""


async def check_machine() -> None:
    """Raise Refused `hosts_root` unless we are root, `hosts_unsupported` if this machine has not what is needed."""
    if os.geteuid() != 0:
        raise Refused("hosts_root", "a region of hosts is made of network namespaces: run this as root")
    for program, package in (("ip", "iproute2"), ("nsenter", "util-linux")):
        if shutil.which(program) is None:
            raise Refused("hosts_unsupported", f"{program} is missing; install {package} (apt-get install {package})")
    process = await asyncio.create_subprocess_exec(
        "unshare", "--net", "true", stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
    )
    if await process.wait():
        raise Refused(
            "hosts_unsupported",
            "this machine makes no network namespaces, as in a container without CAP_SYS_ADMIN; run it elsewhere",
        )


async def ip(*words: str, lines: Sequence[str] = ()) -> str:
    """Run `ip` with these words, or with -batch and these lines; returns its output.

    Raises Unavailable `ip_failed` with what it said.
    """
    command = ["ip", *words, *(["-batch", "-"] if lines else [])]
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE if lines else asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(COMMAND_S):
            out, said = await process.communicate("\n".join(lines).encode() if lines else None)
    except TimeoutError:
        process.kill()
        await process.wait()
        raise Unavailable("ip_failed", f"{' '.join(command)} does not end within {COMMAND_S:g} s") from None
    if process.returncode:
        raise Unavailable("ip_failed", f"{' '.join(command)}: {said.decode(errors='replace').strip()}")
    return out.decode()


async def ip_json(*words: str) -> list[dict[str, Any]]:
    """Run `ip -json` with these words; returns its objects."""
    text = (await ip("-json", *words)).strip()
    return list(json.loads(text)) if text else []


async def namespaces() -> list[str]:
    """Return the names of this machine's network namespaces."""
    return [one["name"] for one in await ip_json("netns", "list")]


async def processes_in(namespace: str) -> list[int]:
    """Return the process IDs in a namespace."""
    return [int(one) for one in (await ip("netns", "pids", namespace)).split()]


def inside(namespace: str) -> list[str]:
    """Return the words before a command that run it in a namespace."""
    return [shutil.which("nsenter") or "nsenter", f"--net={NAMESPACES / namespace}", "--"]
