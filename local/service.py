"""One of our own processes (wallet, setnode, gateway) as a part: `python -m KIND`, settings in its environment."""

import asyncio
import os
import re
import signal
import socket  # noqa: TC003 - plain imports everywhere
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from errors import Unavailable
from installation.certificates import TLS_SETTINGS
from installation.keys import SECRET
from machine.account import own_account
from machine.checkout import CHECKOUT
from machine.child import Child, Command
from machine.child_part import ChildPart
from runtime import listening, sandbox_clock
from runtime.tls import Tls, TlsFiles
from runtime.tls_errors import sentence_of

START_S = 60.0
"""Imports take half a second; a first start makes day tables."""
STOP_S = 0.9
"""What is in flight is a group commit of milliseconds; a whole stack is to stop in less than three seconds."""
RESTART_S = 10.0
"""In a restart a gateway drains first: it serves on until its clients have gone elsewhere."""
PROBE_S = 1.0
MAX_ANSWER_BYTES = 4096
TICK_S = 0.02
LOG_LINES = 8
"""Last lines of the log that an error shows."""
INHERITED = re.compile(
    r"(?:PATH|HOME|USER|LANG|LC_\w+|TZ|TMPDIR|SSL_CERT_\w+|LD_LIBRARY_PATH|PYTHON\w+|COVERAGE_\w+|HONGBAO_\w+)$"
)
"""Variables that a process inherits. The rest may hold passwords of the user who ran `./run`."""


@dataclass(frozen=True)
class ServiceSpec:
    """`module` runs with `env`, and with what INHERITED takes of our own environment.

    It listens on `host`:`port` and serves GET /readyz. `doors`: listening sockets that are made here and stay open
    while it restarts, as (host, port, whether others share the port). A process with doors says by itself that it is
    ready, on the file HONGBAO_READY_FD: in a restart it is started beside the one that it replaces. `prefix`: words
    before the command, which run it elsewhere than here, as `nsenter` does.
    """

    name: str
    module: str
    host: str
    port: int
    env: Mapping[str, str]
    log: Path
    doors: Sequence[tuple[str, int, bool]] = ()
    tls: TlsFiles | None = None
    """If it speaks TLS: what it is shown by the one who asks whether it is ready."""
    prefix: Sequence[str] = ()


class Service(ChildPart):
    """A process that runs under the same account as this one."""

    def __init__(self, spec: ServiceSpec) -> None:
        super().__init__(spec.name, spec.log, own_account())
        self.spec = spec
        self._doors: list[socket.socket] = []
        self._tls: Tls | None = None

    @property
    def url(self) -> str:
        """The base URL of its HTTP listener."""
        return f"{'http' if self.spec.tls is None else 'https'}://{self.spec.host}:{self.spec.port}"

    async def _ask(self, path: str) -> str:
        """Ask for a path as `probe` does, by TLS if it speaks that."""
        if self._tls is None and self.spec.tls is not None:
            self._tls = Tls(self.spec.tls)
        elif self._tls is not None:
            self._tls.look()
        return await probe(self.spec.host, self.spec.port, path, self._tls)

    @property
    def address(self) -> str:
        """Where it listens, host:port."""
        return f"{self.spec.host}:{self.spec.port}"

    async def start(self) -> None:
        """Start; it is ready when this returns. Raises Unavailable (`service_slow`, `service_failed`)."""
        try:
            self._open_doors()
            await self._start()
        except Unavailable:
            # Nobody waits at the door of a part that does not start.
            await self.stop()
            raise

    async def _start(self) -> None:
        """Start a process in the place of `_child`."""
        await self.log.bound()
        offset = self.log.size()
        ready, tells = os.pipe() if self.spec.doors else (None, None)
        try:
            self._child = child = Child.start(self._command(tells))
        finally:
            if tells is not None:
                os.close(tells)
        try:
            async with asyncio.timeout(START_S):
                if await (self._answers_ready(child) if ready is None else _says_ready(ready)):
                    return
        except TimeoutError:
            child.send(signal.SIGKILL)
            answer = await self._ask("/readyz")
            raise Unavailable(
                "service_slow", f"{self.name} is not ready after {START_S:.0f} s: {answer}\n{self.log.tail(LOG_LINES)}"
            ) from None
        except asyncio.CancelledError:
            child.send(signal.SIGKILL)
            raise
        finally:
            if ready is not None:
                os.close(ready)
        await child.wait()
        logged = "\n".join(self.log.since(offset).splitlines()[-LOG_LINES:])
        raise Unavailable(
            "service_failed", f"{self.name} ended with {child.returncode} before it was ready\n{logged}".rstrip()
        )

    async def stop(self) -> None:
        """Ask it to finish at once (SIGINT); SIGKILL after STOP_S."""
        await self._stop((signal.SIGINT, STOP_S))
        self._close_doors()

    async def restart(self) -> None:
        """Let it finish (SIGTERM), and start it.

        One with doors is replaced: the new process serves beside the old one, which then drains. If the new one does
        not start, the old one stays.
        """
        if not self._doors:
            await self._stop((signal.SIGTERM, RESTART_S))
            await self.start()
            return
        old = self._child
        try:
            await self._start()
        except BaseException:
            self._child = old
            raise
        if old is not None:
            await old.stop((signal.SIGTERM, RESTART_S))

    async def _answers_ready(self, child: Child) -> bool:
        """Wait until /readyz answers 200; return False if the process has ended before."""
        while child.running:
            if (await self._ask("/readyz")).startswith("200"):
                return True
            await asyncio.sleep(TICK_S)
        return False

    async def answers(self) -> bool:
        """Say whether its loop turns: GET /healthz within PROBE_S."""
        return (await self._ask("/healthz")).startswith("200")

    def _command(self, tells_ready: int | None) -> Command:
        path = os.pathsep.join(filter(None, [str(CHECKOUT), os.environ.get("PYTHONPATH", "")]))
        numbers = [one.fileno() for one in self._doors]
        listen = {"HONGBAO_LISTEN": f"{self.spec.host}:{self.spec.port}", "PYTHONPATH": path}
        if numbers:
            listen["HONGBAO_LISTEN_FDS"] = ",".join(map(str, numbers))
        if tells_ready is not None:
            listen["HONGBAO_READY_FD"] = str(tells_ready)
            numbers.append(tells_ready)
        # -P: modules come from PYTHONPATH above, not from the folder in which the process starts.
        return Command(
            [*self.spec.prefix, sys.executable, "-P", "-m", self.spec.module],
            {**_inherited(), **self.spec.env, **listen},
            self._account,
            self.log,
            inherits=numbers,
        )

    def _open_doors(self) -> None:
        if self._doors:
            return
        try:
            for host, port, shared in self.spec.doors:
                self._doors += listening.listen(host, port, shared=shared)
        except OSError as error:
            self._close_doors()
            raise Unavailable("service_failed", f"{self.name} cannot listen: {error.strerror}") from error

    def _close_doors(self) -> None:
        listening.close_all(self._doors)
        self._doors.clear()


def _inherited() -> dict[str, str]:
    """Return what a process inherits: what programs need, and settings of ours that are no secrets."""
    # A sandbox's clock is the runner's to give: one that somebody has left in our environment would move a real clock.
    # A certificate is one process's own: what commands show would make every part of ours speak TLS in their name.
    left_out = {*SECRET, sandbox_clock.SETTING, *TLS_SETTINGS}
    return {name: value for name, value in os.environ.items() if INHERITED.match(name) and name not in left_out}


async def _says_ready(ready: int) -> bool:
    """Wait for a process to say that it is ready; return False if it has ended before."""
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(ready, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(ready)
    return bool(os.read(ready, 16))


async def probe_ready(host: str, port: int, tls: Tls | None = None, certified: str = "") -> str:
    """Return status and body of GET /readyz, or why there is no answer, as `probe`."""
    return await probe(host, port, "/readyz", tls, certified)


async def probe(host: str, port: int, path: str, tls: Tls | None = None, certified: str = "") -> str:
    """Return status and body of a GET, what is wrong with a certificate, or "no answer".

    `certified`: for which name the certificate has to be; "" for `host`.

    Written by hand: it asks one thing, of one address, and needs no session.
    """
    try:
        async with asyncio.timeout(PROBE_S):
            context, name = (None, None) if tls is None else (tls.client, certified or None)
            reader, writer = await asyncio.open_connection(host, port, ssl=context, server_hostname=name)
            try:
                writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n".encode())
                head, _, body = (await reader.read(MAX_ANSWER_BYTES)).decode(errors="replace").partition("\r\n\r\n")
                return f"{head[9:12]} {body}".strip()
            finally:
                writer.close()
                await writer.wait_closed()
    except (OSError, TimeoutError) as error:
        # A connection whose handshake failed is closed in the next turn of the loop, which may be this loop's last.
        await asyncio.sleep(0)
        return sentence_of(error, f"https://{host}:{port}") or "no answer"
