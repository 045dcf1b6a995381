"""One memcached: from PATH, else from what set-up fetched, else fetched now, else one line that says what to do."""

import asyncio
import os
import shutil
import signal
from dataclasses import dataclass, field
from pathlib import Path

from cluster import ports
from cluster.account import Account, server_account
from cluster.child import Child, Command
from cluster.logfile import LogFile
from envelope.errors import Refused, Unavailable

CHECKOUT = Path(__file__).resolve().parents[1]
TOOLS = CHECKOUT / ".tools" / "root"
FETCH_S = 120.0
START_S = 5.0
STOP_S = 0.3
"""It has nothing worth waiting for, and looks at its signals only once a second."""
TICK_S = 0.01
TRIES = 5


@dataclass(frozen=True)
class Program:
    """The program and the folders of the shared libraries that were fetched with it."""

    path: Path
    libraries: tuple[Path, ...] = ()

    def env(self) -> dict[str, str]:
        """Return the environment it needs."""
        return {"LD_LIBRARY_PATH": ":".join(map(str, self.libraries))} if self.libraries else {}


async def find_memcached(account: Account, data: Path, tools: Path = TOOLS) -> Program:
    """Return a memcached that `account` may run; raises Refused `no_memcached`."""
    on_path = shutil.which("memcached")
    if on_path and account.may("-x", Path(on_path)):
        return Program(Path(on_path))
    fetched = tools / "usr" / "bin" / "memcached"
    if not fetched.exists():
        await _fetch(tools)
    if not fetched.exists():
        raise Refused(
            "no_memcached", "memcached is missing and could not be fetched; install it (apt-get install memcached)"
        )
    program = Program(fetched, _libraries(tools))
    return program if account.may("-x", fetched) else _copy(program, data / "software" / "memcached")


def _libraries(tools: Path) -> tuple[Path, ...]:
    return (*tools.glob("usr/lib/*-linux-gnu*"), *tools.glob("lib/*-linux-gnu*"))


async def _fetch(tools: Path) -> None:
    script = Path(__file__).with_name("setup") / "debian.sh"
    process = await asyncio.create_subprocess_exec(
        "sh", str(script), str(tools), "memcached",
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        async with asyncio.timeout(FETCH_S):
            await process.wait()
    except TimeoutError:
        process.terminate()
        await process.wait()


def _copy(program: Program, to: Path) -> Program:
    """Copy program and libraries to where the account may run them (root's checkout is often closed to others)."""
    to.mkdir(parents=True, exist_ok=True)
    for folder in program.libraries:
        for library in folder.glob("*.so*"):
            shutil.copy(library, to / library.name)
    shutil.copy(program.path, to / "memcached")
    return Program(to / "memcached", (to,))


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
        self._program = self._program or await find_memcached(self._account, self.spec.data, self.spec.tools)
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
        words += ["-m", str(self.spec.memory_mb), "-c", str(self.spec.connections)]
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
