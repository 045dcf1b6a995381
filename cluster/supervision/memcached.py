"""One memcached: from PATH, else from what set-up fetched, else fetched now, else one line that says what to do."""

import asyncio
import os
import signal
from dataclasses import dataclass, field
from pathlib import Path

from cluster.machine import ports
from cluster.machine.account import Account, server_account
from cluster.machine.programs import TOOLS, Program, find_program
from cluster.supervision.child import Child, Command
from cluster.supervision.logfile import LogFile
from envelope.errors import Unavailable

START_S = 5.0
STOP_S = 0.3
"""It has nothing worth waiting for, and looks at its signals only once a second."""
TICK_S = 0.01
TRIES = 5


@dataclass(frozen=True)
class MemcachedSpec:
    """What to run; `data` is where a copy of the program may go."""

    name: str
    data: Path
    log: Path
    memory_mb: int = 64
    connections: int = 1024
    tools: Path = field(default=TOOLS)


class Memcached:
    """A server on loopback. Its content is never an authority and is gone when it ends."""

    def __init__(self, spec: MemcachedSpec, *, account: Account | None = None) -> None:
        self.name = spec.name
        self.spec = spec
        self.log = LogFile(spec.log)
        self._account = account or server_account()
        self._program: Program | None = None
        self._port: int | None = None
        self._child: Child | None = None

    @property
    def address(self) -> str:
        """Return host:port; known from the first start on."""
        return f"{ports.LOOPBACK}:{self._port}"

    @property
    def pid(self) -> int:
        """The process ID; 0 before the first start."""
        return self._child.pid if self._child else 0

    @property
    def running(self) -> bool:
        """Whether it is there."""
        return self._child is not None and self._child.running

    async def start(self) -> None:
        """Start; when this returns it answers. Raises Refused or Unavailable with the reason."""
        self._program = self._program or await find_program("memcached", self._account, self.spec.data, self.spec.tools)
        for _ in range(TRIES):
            port = self._port or ports.free_port()
            if await self._try(self._program, port):
                self._port = port
                return
        raise Unavailable("memcached_failed", f"memcached does not start: {self.log.tail(2) or 'it said nothing'}")

    async def stop(self) -> None:
        """Stop; bounded."""
        if self._child is not None:
            await self._child.stop((signal.SIGTERM, STOP_S))

    def kill(self) -> None:
        """Kill it as a crash would."""
        if self._child is not None:
            self._child.send(signal.SIGKILL)

    async def restart(self) -> None:
        """Stop and start, empty, on the same port."""
        await self.stop()
        await self.start()

    async def wait(self) -> int:
        """Wait, without a deadline, until it has ended."""
        return await self._child.wait() if self._child else 0

    async def _try(self, program: Program, port: int) -> bool:
        # -U 0: no UDP. No -u: the account is changed before, because a change after would clear the death signal.
        words = [str(program.path), "-l", ports.LOOPBACK, "-p", str(port), "-U", "0"]
        # It holds a few short lists that expire by themselves: one thread answers, and none wakes a hundred times a
        # second to sort them by age.
        words += ["-m", str(self.spec.memory_mb), "-c", str(self.spec.connections), "-t", "1"]
        words += ["-o", "no_lru_maintainer,no_lru_crawler"]
        env = {"PATH": os.environ.get("PATH", os.defpath), **program.env()}
        self._child = child = Child.start(Command(words, env, self._account, self.log, death_signal="TERM"))
        loop = asyncio.get_running_loop()
        deadline = loop.time() + START_S
        while child.running and loop.time() < deadline:
            if await answers(port):
                return child.running
            await asyncio.sleep(TICK_S)
        await child.stop((signal.SIGTERM, STOP_S))
        return False


async def answers(port: int) -> bool:
    """Say whether a memcached answers on this port."""
    try:
        async with asyncio.timeout(1.0):
            reader, writer = await asyncio.open_connection(ports.LOOPBACK, port)
            try:
                writer.write(b"version\r\n")
                return (await reader.readline()).startswith(b"VERSION")
            finally:
                writer.close()
                await writer.wait_closed()
    except (OSError, TimeoutError):
        return False
