"""One memcached server, as a part (`local.part`): on a socket that only its own account can reach, or on loopback.

memcached asks for no password. On loopback every account of the machine can write to it.
"""

import asyncio
import os
import signal
import stat
from dataclasses import dataclass, field
from pathlib import Path

from errors import Unavailable
from machine import ports
from machine.account import Account, cache_account
from machine.child import Child, Command
from machine.child_part import ChildPart
from machine.debian_programs import TOOLS, Program, find_program

START_S = 5.0
STOP_S = 0.3
"""Its content is worthless, and it may take a second to see a signal: SIGKILL follows soon."""
TICK_S = 0.01
TRIES = 5
MAX_SOCKET_PATH = 100
"""The kernel takes 107 characters."""


@dataclass(frozen=True)
class MemcachedSpec:
    """`data`: where the program may be copied to.

    `socket`: a path whose folder is used by us only, and private to the server's account (and root). Without it the
    server listens on loopback, at `port`, or at a free one that is chosen at the first start and kept.
    """

    name: str
    data: Path
    log: Path
    memory_mb: int = 64
    connections: int = 1024
    port: int | None = None
    socket: Path | None = None
    tools: Path = field(default=TOOLS)


class Memcached(ChildPart):
    """A server whose content is lost when it ends; nothing relies on the content."""

    def __init__(self, spec: MemcachedSpec, *, account: Account | None = None) -> None:
        super().__init__(spec.name, spec.log, account or cache_account())
        self.spec = spec
        self._program: Program | None = None
        self._port = spec.port

    @property
    def address(self) -> str:
        """Where it listens, host:port or the path of the socket; known from the first start on."""
        if self.spec.socket is not None:
            return str(self.spec.socket)
        return f"{ports.LOOPBACK}:{self._port}"

    async def start(self) -> None:
        """Start; it answers when this returns. Raises Refused `no_memcached` or Unavailable `memcached_failed`."""
        self._program = self._program or await find_program("memcached", self._account, self.spec.data, self.spec.tools)
        for _ in range(TRIES):
            if self.spec.socket is not None:
                self._make_folder(self.spec.socket)
                if await self._start_once(self._program, ["-s", self.address, "-a", "0700"], self.address):
                    return
                continue
            port = self._port or ports.free_port()
            where = ["-l", ports.LOOPBACK, "-p", str(port), "-U", "0"]  # -U 0: no UDP
            if await self._start_once(self._program, where, f"{ports.LOOPBACK}:{port}"):
                self._port = port
                return
        raise Unavailable("memcached_failed", f"memcached does not start: {self.log.tail(2) or 'its log is empty'}")

    async def stop(self) -> None:
        """Stop within STOP_S, by SIGKILL if need be; the socket and its folder go."""
        await self._stop((signal.SIGTERM, STOP_S))
        if self.spec.socket is not None and is_private(self.spec.socket.parent, self._account):
            self.spec.socket.unlink(missing_ok=True)
            self.spec.socket.parent.rmdir()

    async def restart(self) -> None:
        """Stop and start, empty, at the same address."""
        await self._stop((signal.SIGTERM, STOP_S))
        await self.start()

    async def answers(self) -> bool:
        """Say whether it answers within a second."""
        return await responds(self.address)

    def _make_folder(self, socket: Path) -> None:
        """Make the socket's folder: the server's account can enter it, and root. The socket of a dead server goes.

        Raises Unavailable `memcached_failed` if there is something there that is not ours.
        """
        socket.parent.mkdir(mode=0o700, exist_ok=True)
        if not is_private(socket.parent, self._account):
            raise Unavailable("memcached_failed", f"{socket.parent} is no folder of ours; remove it")
        socket.parent.chmod(0o700)
        self._account.chown(socket.parent)
        socket.unlink(missing_ok=True)

    async def _start_once(self, program: Program, where: list[str], address: str) -> bool:
        # No -u: setpriv changes the account before; a change by memcached would clear the death signal.
        command = [str(program.path), *where]
        # It holds a few short lists that expire by themselves: one thread is enough, and the maintainer threads, which
        # wake a hundred times a second, are not needed.
        command += ["-m", str(self.spec.memory_mb), "-c", str(self.spec.connections), "-t", "1"]
        command += ["-o", "no_lru_maintainer,no_lru_crawler"]
        env = {"PATH": os.environ.get("PATH", os.defpath), **program.env()}
        self._child = child = Child.start(Command(command, env, self._account, self.log, death_signal="TERM"))
        loop = asyncio.get_running_loop()
        deadline = loop.time() + START_S
        while child.running and loop.time() < deadline:
            if await responds(address):
                return child.running
            await asyncio.sleep(TICK_S)
        await child.stop((signal.SIGTERM, STOP_S))
        return False


def is_private(folder: Path, account: Account) -> bool:
    """Say whether this is a folder, no link, of ours or of `account`: in /tmp a stranger may have taken its name."""
    try:
        found = folder.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid in (os.geteuid(), account.uid)


async def responds(address: str) -> bool:
    """Say whether a memcached answers at this address: host:port, or the path of a socket."""
    try:
        async with asyncio.timeout(1.0):
            if address.startswith("/"):
                reader, writer = await asyncio.open_unix_connection(address)
            else:
                host, _, port = address.rpartition(":")
                reader, writer = await asyncio.open_connection(host, int(port))
            try:
                writer.write(b"version\r\n")
                return (await reader.readline()).startswith(b"VERSION")
            finally:
                writer.close()
                await writer.wait_closed()
    except (OSError, TimeoutError):
        return False
