"""One Postgres server as a part (`local.part`): started, stopped, killed and started again on the same port."""

import asyncio
import os
import shutil
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from errors import HongbaoError, Refused, Unavailable
from machine import ports
from machine.account import Account, server_account
from machine.child import Child, Command
from machine.child_part import ChildPart
from machine.postgres.binaries import Binaries, find_binaries
from machine.postgres.cluster_folder import ClusterFolder
from machine.postgres.settings import render_conf, settings_of

START_S = 180.0
"""Mostly recovery: after a crash up to max_wal_size of log is replayed."""
STOP_S = 2.0
"""A fast stop writes all dirty pages; after this time SIGQUIT follows, and the next start recovers instead."""
TRIES = 40
PAUSE_S = 0.25
MIN_FREE_TO_MAKE_BYTES = 500 * 1024 * 1024
"""To make a cluster: 40 MB, its first log files and day tables, and room to work."""
MIN_FREE_BYTES = 64 * 1024 * 1024
"""To start a cluster that stands: recovery ends with a checkpoint and needs a few log files of 16 MB."""
TICK_S = 0.01
PROBE_S = 2.0
"""A fork takes milliseconds; on a machine that swaps it takes long."""
_SSL_REQUEST = bytes.fromhex("00000008 04d2162f")
"""The first packet of a client that would like TLS; the server answers with one byte."""

Mode = Literal["smart", "fast", "immediate"]
_SIGNALS = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}


@dataclass(frozen=True)
class PostgresSpec:
    """`folder` holds the cluster, and its parent is used by us only. `passwords` are by role, "postgres" included.

    Without `port` a free one is chosen at the first start and kept. `settings` override ours. `start_s` bounds a start.
    """

    name: str
    folder: Path
    log: Path
    passwords: Mapping[str, str]
    port: int | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    start_s: float = START_S
    is_copy: bool = False
    """Its files are those of another server: what ALTER SYSTEM has set there must not override these settings."""
    known: str | None = None
    """What is known of the cluster before the first start here; see `ClusterFolder`."""
    warn: Callable[[str], None] = lambda _: None
    """Receives a sentence for the operator about something that does not keep the server from starting."""


class Postgres(ChildPart):
    """A server. `start` makes the cluster if none was known; committed data survives every kind of end.

    Its process here is the postmaster; when that is killed, its backends notice and exit.
    """

    def __init__(self, spec: PostgresSpec, *, binaries: Binaries | None = None, account: Account | None = None) -> None:
        super().__init__(spec.name, spec.log, account or server_account())
        self.spec = spec
        self._binaries = binaries or find_binaries(self._account, spec.folder.parent)
        self._folder = ClusterFolder(spec.folder, self._binaries, self._account)
        self._known = spec.known
        self._port = spec.port

    @property
    def binaries(self) -> Binaries:
        """The programs that it runs with."""
        return self._binaries

    @property
    def system_identifier(self) -> str:
        """The number that initdb gave the cluster; known from the first start on. No later start takes another."""
        if not self._known:
            raise Refused("postgres_not_started", f"the cluster of {self.name} is not known before its first start")
        return self._known

    @property
    def port(self) -> int:
        """The port; known from the first start on."""
        if self._port is None:
            raise Refused("postgres_not_started", f"Postgres {self.name} has no port before its first start")
        return self._port

    @property
    def address(self) -> str:
        """Where it listens, host:port; known from the first start on."""
        return f"{ports.LOOPBACK}:{self.port}"

    def dsn(self, user: str = "postgres", database: str = "postgres") -> str:
        """Return the DSN of `user` for `database`, with the password."""
        password = quote(self.spec.passwords[user], safe="")
        return f"postgresql://{quote(user)}:{password}@{ports.LOOPBACK}:{self.port}/{quote(database)}"

    async def start(self) -> None:
        """Start; it accepts connections when this returns. Raises Refused or Unavailable with Postgres' own reason."""
        if self.running:
            raise Refused("postgres_already_running", f"Postgres {self.name} is running")
        self._check_space()
        self._known = await self._folder.ensure(self.spec.passwords["postgres"], self.log, self._known)
        for _ in range(TRIES):
            port = self._port or ports.free_port()
            logged = await self._start_once(port)
            if logged is None:
                self._port = port
                return
            self._raise_unless_retryable(logged, port)
            # Try another port, or wait until the helpers of the last server have noticed that it is gone.
            await asyncio.sleep(PAUSE_S if self._port else 0)
        raise Unavailable("postgres_failed", f"Postgres {self.name} does not start; its log: {self.log.path}")

    async def stop(self, mode: Mode = "fast") -> None:
        """Stop in `mode`; after STOP_S by SIGQUIT, then SIGKILL. No mode loses what was committed."""
        await self._stop((_SIGNALS[mode], STOP_S), (signal.SIGQUIT, 1.0))

    async def restart(self, mode: Mode = "fast") -> None:
        """Stop and start on the same port."""
        await self.stop(mode)
        await self.start()

    async def answers(self) -> bool:
        """Say whether the postmaster forks for a connection within PROBE_S; needs no password and no free slot."""
        try:
            async with asyncio.timeout(PROBE_S):
                reader, writer = await asyncio.open_connection(ports.LOOPBACK, self.port)
                try:
                    writer.write(_SSL_REQUEST)
                    return await reader.read(1) in {b"N", b"S"}
                finally:
                    writer.close()
                    await writer.wait_closed()
        except (OSError, TimeoutError):
            return False

    async def _start_once(self, port: int) -> str | None:
        """Start once; returns None if it accepts connections, else what it has logged."""
        await self.log.bound()
        offset = self.log.size()
        self._child = child = Child.start(self._command(port))
        try:
            async with asyncio.timeout(self.spec.start_s):
                while child.running:
                    if self._ready(child.pid):
                        return None
                    await asyncio.sleep(TICK_S)
        except TimeoutError:
            await child.stop((signal.SIGQUIT, 1.0))
            raise Unavailable(
                "postgres_slow",
                f"Postgres {self.name} is not ready after {self.spec.start_s:.0f} s; its log: {self.log.path}",
            ) from None
        except asyncio.CancelledError:
            await asyncio.shield(child.stop((signal.SIGQUIT, 1.0)))
            raise
        return self.log.since(offset)

    def _command(self, port: int) -> Command:
        """Write the configuration file; returns the command of the postmaster."""
        target = self.spec.folder / "hongbao.conf"
        settings = settings_of(self._binaries, port, self.spec.settings)
        target.write_text(render_conf(settings), encoding="utf-8")
        target.chmod(0o600)
        self._account.chown(target)
        forced = settings.items() if self.spec.is_copy else ()
        return Command(
            [
                *(self._binaries.program("postgres"), "-D", str(self.spec.folder), "-c", f"config_file={target}"),
                *(word for name, value in forced for word in ("-c", f"{name}={value}")),
            ],
            {"LC_ALL": "C", "TZ": "UTC", "PATH": os.environ.get("PATH", os.defpath)},
            self._account,
            self.log,
            death_signal="QUIT",
        )

    def _ready(self, pid: int) -> bool:
        """Read postmaster.pid, as pg_ctl does: line 1 is the process ID, line 8 the state."""
        try:
            lines = self._folder.pid_file.read_text(encoding="utf-8").splitlines()
        except OSError:
            return False
        return lines[:1] == [str(pid)] and [line.strip() for line in lines[7:8]] == ["ready"]

    def _raise_unless_retryable(self, logged: str, port: int) -> None:
        """Raise unless another attempt can succeed."""
        if "Address already in use" in logged:
            if self.spec.port is not None:
                raise _port_taken(self.name, port)
            return
        if "shared memory block" in logged or "postmaster.pid" in logged:
            return
        raise _failed(self.name, logged, self.log.path)

    def _check_space(self) -> None:
        """Raise Refused `disk_full` where a start would not end well; warn where a cluster has little room left."""
        folder = self.spec.folder
        while not folder.exists():
            folder = folder.parent
        free = shutil.disk_usage(folder).free
        needed = MIN_FREE_BYTES if self._folder.stands else MIN_FREE_TO_MAKE_BYTES
        if free < needed:
            raise Refused(
                "disk_full",
                f"only {free // 1024**2} MB are free at {folder}; make room for at least {needed // 1024**2}",
            )
        if free < MIN_FREE_TO_MAKE_BYTES:
            self.spec.warn(f"{self.name} starts with only {free // 1024**2} MB free at {folder}; make room soon")


def _port_taken(name: str, port: int) -> HongbaoError:
    return Refused("port_taken", f"port {port} for Postgres {name} is taken; stop what listens there or choose another")


def _failed(name: str, logged: str, log: Path) -> HongbaoError:
    # The last line often says only that there were errors; the one before names them.
    reasons = [line.split("] ", 1)[-1].strip() for line in logged.splitlines() if line.strip()]
    reason = "; ".join(reasons[-2:]) or "its log is empty"
    return Unavailable("postgres_failed", f"Postgres {name} does not start: {reason} (its log: {log})")
