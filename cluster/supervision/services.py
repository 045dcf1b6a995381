"""Our own processes (wallet, setnode, gateway) as parts: `python -m KIND` with its settings in the environment."""

import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cluster.machine.account import Account, server_account
from cluster.machine.checkout import CHECKOUT
from cluster.supervision.child import Child, Command
from cluster.supervision.logfile import LogFile
from envelope.errors import Unavailable

START_S = 60.0
"""Imports take half a second; a first start makes day tables."""
STOP_S = 0.7
"""What is in flight is a group commit of milliseconds; all of a stack stops in less than three seconds."""
PROBE_S = 1.0
MAX_ANSWER_BYTES = 4096
TICK_S = 0.02


@dataclass(frozen=True)
class ServiceSpec:
    """What to run: `module` is run with `env` over our own environment and must answer on host:port."""

    name: str
    module: str
    host: str
    port: int
    env: Mapping[str, str]
    log: Path


class Service:
    """One process of ours; it runs as we do."""

    def __init__(self, spec: ServiceSpec) -> None:
        self.name = spec.name
        self.spec = spec
        self.log = LogFile(spec.log)
        own = server_account()
        self._account = Account(own.name, own.uid, own.gid, drop=False)
        self._child: Child | None = None

    @property
    def url(self) -> str:
        """Where its HTTP listener is."""
        return f"http://{self.spec.host}:{self.spec.port}"

    @property
    def pid(self) -> int:
        """The process ID; 0 before the first start."""
        return self._child.pid if self._child else 0

    @property
    def running(self) -> bool:
        """Whether it is there."""
        return self._child is not None and self._child.running

    async def start(self) -> None:
        """Start; when this returns, /readyz has said 200."""
        self.log.bound()
        offset = self.log.size()
        self._child = child = Child.start(self._command())
        answer = ""
        try:
            async with asyncio.timeout(START_S):
                while child.running:
                    answer = await ask_ready(self.spec.host, self.spec.port)
                    if answer.startswith("200"):
                        return
                    await asyncio.sleep(TICK_S)
        except TimeoutError:
            await self.stop()
            raise Unavailable(
                "service_slow", f"{self.name} is not ready after {START_S:.0f} s: {answer}\n{self.log.tail()}"
            ) from None
        except asyncio.CancelledError:
            child.send(signal.SIGKILL)
            raise
        said = "\n".join(self.log.since(offset).splitlines()[-8:])
        raise Unavailable(
            "service_failed", f"{self.name} ended with {child.returncode} before it was ready\n{said}".rstrip()
        )

    async def stop(self) -> None:
        """Ask it to finish and leave; kill it after the deadline."""
        if self._child is not None:
            await self._child.stop((signal.SIGTERM, STOP_S))

    def kill(self) -> None:
        """Kill it as a crash would."""
        if self._child is not None:
            self._child.send(signal.SIGKILL)

    async def wait(self) -> int:
        """Wait, without a deadline, until it has ended."""
        return await self._child.wait() if self._child else 0

    def _command(self) -> Command:
        path = os.pathsep.join(filter(None, [str(CHECKOUT), os.environ.get("PYTHONPATH", "")]))
        listen = {"HONGBAO_LISTEN": f"{self.spec.host}:{self.spec.port}", "PYTHONPATH": path}
        # -P: the folder it starts in is not searched for modules; ours come from the path above.
        return Command(
            [sys.executable, "-P", "-m", self.spec.module],
            {**os.environ, **self.spec.env, **listen},
            self._account,
            self.log,
        )


async def ask_ready(host: str, port: int) -> str:
    """Return status and body of GET /readyz. By hand: to import an HTTP client takes longer than all the rest."""
    try:
        async with asyncio.timeout(PROBE_S):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(f"GET /readyz HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n".encode())
                head, _, body = (await reader.read(MAX_ANSWER_BYTES)).decode(errors="replace").partition("\r\n\r\n")
                return f"{head[9:12]} {body}".strip()
            finally:
                writer.close()
                await writer.wait_closed()
    except (OSError, TimeoutError):
        return "no answer"
