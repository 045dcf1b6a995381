"""`hongbao serve`: processes that something else than the runner starts, beside one that it has started."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from client import Hongbao
from local.service import probe
from machine import ports
from tests.faults.stack_fixtures import running_stack

pytestmark = [pytest.mark.faults, pytest.mark.timeout(120)]


@contextlib.asynccontextmanager
async def _served(data: Path, *words: str, **env: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "cli", "serve", *words, "--data", str(data), env={**os.environ, **env},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _ready(address: str) -> None:
    host, port = address.split(":")
    async with asyncio.timeout(30):
        while not (await probe(host, int(port), "/readyz")).startswith("200"):
            await asyncio.sleep(0.05)


MISSING = (
    (("setnode",), "name the setnode: one of set-1-a"),
    (("setnode", "--name", "set-9-a"), "the installation has no setnode 'set-9-a'"),
    (("gateway",), "say where the gateway listens"),
    (("gateway", "--listen", "nowhere"), "is not host:port"),
    (("events",), "say where the events listens"),
)
"""Words that name no process, and the sentence that says what to add."""


async def test_processes_that_another_supervisor_starts(server_folder: Path) -> None:
    """A setnode in the place of one that is gone, and a gateway at an address of its own, serve; SIGTERM ends them."""
    data = server_folder / "data"
    async with running_stack(data, sets=1, servers=1) as one:
        (server,) = one.access.topology().sets[0].servers
        gateway = f"127.0.0.1:{ports.free_port()}"
        one.stack.kill("set-1-a", stay_dead=True)
        # What somebody has left in the environment opens nothing for a process that does not use it.
        stray = {
            "HONGBAO_TOKEN_KEY": one.access.key("TOKEN_KEY"),
            "HONGBAO_POSTGRES_DSN": "postgresql://nobody@nowhere/x",
        }
        async with (
            _served(data, "setnode", "--name", "set-1-a", **stray) as setnode,
            _served(data, "gateway", "--listen", gateway) as door,
        ):
            await _ready(server.url.removeprefix("http://"))
            await _ready(gateway)
            await one.deposit("alice", 1_000)
            async with Hongbao(f"http://{gateway}") as hongbao:
                envelope = await hongbao.user(one.access.token("alice")).create(total_fen=1_000, count=2)
                assert (await hongbao.user(one.access.token("bob")).open(envelope)).amount_fen
            environ = Path(f"/proc/{setnode.pid}/environ").read_bytes()
            assert b"HONGBAO_TOKEN_KEY" not in environ
            for process in (door, setnode):
                process.send_signal(signal.SIGTERM)
                assert await asyncio.wait_for(process.wait(), 30) == 0
        await one.stack.restart("set-1-a")
        for words, said in MISSING:
            async with _served(data, *words) as process:
                _, err = await asyncio.wait_for(process.communicate(), 30)
            assert process.returncode == 1
            assert said in err.decode()
        assert (await one.settled_audit()).holds
