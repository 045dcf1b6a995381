"""One Redis on loopback: Debian's, found or fetched like memcached."""

import asyncio
import os
import signal
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from errors import Unavailable
from machine import ports
from machine.account import server_account
from machine.child import Child, Command
from machine.debian_programs import find_program
from machine.logfile import LogFile

START_S = 30.0
"""Mostly reading back an append-only file."""
STOP_S = 2.0
TICK_S = 0.01
PACKAGE = "redis-server"


class Persistence(StrEnum):
    """How much of what it answered Redis has on disk."""

    MEMORY = "memory"
    """Nothing."""
    EVERYSEC = "everysec"
    """Append-only file, fsync once a second in the background."""
    ALWAYS = "always"
    """Append-only file, fsync before the answer, one for all commands of a turn of its loop."""


@dataclass(frozen=True)
class RedisSpec:
    """What to run. `folder` is made; copies of the programs may go there too."""

    folder: Path
    persistence: Persistence


class RedisServer:
    """A server; after a kill `start` reads back what its append-only file holds."""

    def __init__(self, spec: RedisSpec) -> None:
        self.spec = spec
        self.port = ports.free_port()
        self._account = server_account()
        self._log = LogFile(spec.folder.with_suffix(".log"))
        self._child: Child | None = None

    async def start(self) -> None:
        """Start; when this returns it answers. Raises Refused or Unavailable with the reason."""
        folder = self.spec.folder
        folder.mkdir(parents=True, exist_ok=True)
        self._account.chown(folder)
        program = await find_program("redis-server", self._account, folder, package=PACKAGE)
        append = self.spec.persistence is not Persistence.MEMORY
        words = [str(program.path), "--port", str(self.port), "--bind", ports.LOOPBACK, "--dir", str(folder)]
        words += ["--save", "", "--appendonly", "yes" if append else "no"]
        # No rewriting: it would fork beside the run.
        words += ["--appendfsync", self.spec.persistence.value, "--auto-aof-rewrite-percentage", "0"] if append else []
        env = {"PATH": os.environ.get("PATH", os.defpath), **program.env()}
        self._child = child = Child.start(Command(words, env, self._account, self._log, death_signal="TERM"))
        try:
            async with asyncio.timeout(START_S):
                while child.running and not await self._answers():
                    await asyncio.sleep(TICK_S)
        except BaseException:
            await asyncio.shield(self.stop())
            raise
        if not child.running:
            raise Unavailable("redis_failed", f"Redis does not start: {self._log.tail(2) or 'it said nothing'}")

    async def stop(self) -> None:
        """Stop within STOP_S; what Redis has only in memory is dropped."""
        if self._child is not None:
            await self._child.stop((signal.SIGTERM, STOP_S))

    async def kill(self) -> None:
        """Kill it as a crash of the process would, and wait until it is gone."""
        if self._child is not None:
            self._child.send(signal.SIGKILL)
            await self._child.wait()

    async def _answers(self) -> bool:
        """Say whether it answers commands: while it reads back its file it says LOADING."""
        try:
            reader, writer = await asyncio.open_connection(ports.LOOPBACK, self.port)
        except OSError:
            return False
        try:
            writer.write(b"PING\r\n")
            return (await reader.readline()).startswith(b"+PONG")
        except OSError:
            return False
        finally:
            writer.close()
