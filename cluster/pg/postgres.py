"""One Postgres server of ours: started, watched, stopped, killed and started again on the same port."""

import asyncio
import os
import shutil
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from cluster.machine import ports
from cluster.machine.account import Account, server_account
from cluster.machine.binaries import Binaries, find_binaries
from cluster.pg.pgfolder import PgFolder
from cluster.pg.pgsettings import conf
from cluster.supervision.child import Child, Command
from cluster.supervision.logfile import LogFile
from envelope.errors import HongbaoError, Refused, Unavailable

START_S = 180.0
"""Mostly recovery: up to max_wal_size of log is read back after a crash."""
STOP_S = 2.0
"""A fast stop writes what is dirty; past this it is cut short, and recovery does the same work later."""
TRIES = 40
PAUSE_S = 0.25
MIN_FREE_BYTES = 500 * 1024 * 1024
TICK_S = 0.01

Mode = Literal["smart", "fast", "immediate"]
_SIGNALS = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}


@dataclass(frozen=True)
class PostgresSpec:
    """What to run: `folder` holds the cluster, its parent is ours alone; `passwords` are by role.

    Without `port` a free one is chosen at the first start and kept. `settings` go over ours. `start_s` bounds a start.
    """

    name: str
    folder: Path
    log: Path
    passwords: Mapping[str, str]
    port: int | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    start_s: float = START_S


class Postgres:
    """A server. `start` makes the cluster if need be; data outlives every kind of end."""

    def __init__(self, spec: PostgresSpec, *, binaries: Binaries | None = None, account: Account | None = None) -> None:
        self.name = spec.name
        self.spec = spec
        self.log = LogFile(spec.log)
        self._account = account or server_account()
        self._binaries = binaries or find_binaries(self._account, spec.folder.parent)
        self._folder = PgFolder(spec.folder, self._binaries, self._account)
        self._port = spec.port
        self._child: Child | None = None

    @property
    def port(self) -> int:
        """The port; known from the first start on."""
        if self._port is None:
            raise Refused("postgres_not_started", f"Postgres {self.name} has no port before its first start")
        return self._port

    @property
    def pid(self) -> int:
        """The postmaster's process ID; 0 before the first start."""
        return self._child.pid if self._child else 0

    @property
    def running(self) -> bool:
        """Whether the postmaster is there."""
        return self._child is not None and self._child.running

    def dsn(self, user: str = "postgres", database: str = "postgres") -> str:
        """Return how `user` connects to `database`."""
        password = quote(self.spec.passwords[user], safe="")
        return f"postgresql://{quote(user)}:{password}@{ports.LOOPBACK}:{self.port}/{quote(database)}"

    async def start(self) -> None:
        """Start; when this returns, connections are accepted. Raises Refused or Unavailable with the reason."""
        if self.running:
            raise Refused("postgres_already_running", f"Postgres {self.name} is running")
        self._check_space()
        await self._folder.ensure(self.spec.passwords["postgres"], self.log)
        for _ in range(TRIES):
            port = self._port or ports.free_port()
            said = await self._try(port)
            if said is None:
                self._port = port
                return
            self._judge(said, port)
            # Either another port, or the last server's helpers need a moment to see that it is gone.
            await asyncio.sleep(PAUSE_S if self._port else 0)
        raise Unavailable("postgres_failed", f"Postgres {self.name} does not start; its log: {self.log.path}")

    async def stop(self, mode: Mode = "fast") -> None:
        """Stop, harder after two seconds; nothing that was committed is lost in any mode."""
        if self._child is not None:
            await self._child.stop((_SIGNALS[mode], STOP_S), (signal.SIGQUIT, 1.0))

    def kill(self) -> None:
        """Kill the postmaster as a crash would; its backends notice and leave."""
        if self._child is not None:
            self._child.send(signal.SIGKILL)

    async def restart(self, mode: Mode = "fast") -> None:
        """Stop and start on the same port."""
        await self.stop(mode)
        await self.start()

    async def wait(self) -> int:
        """Wait, without a deadline, until the postmaster has ended."""
        return await self._child.wait() if self._child else 0

    async def _try(self, port: int) -> str | None:
        """Start once; return None when it accepts connections, else what the log says."""
        target = self.spec.folder / "hongbao.conf"
        target.write_text(conf(self._binaries, port, self.spec.settings), encoding="utf-8")
        target.chmod(0o600)
        self._account.own(target)
        self.log.bound()
        offset = self.log.size()
        self._child = child = Child.start(
            Command(
                [
                    self._binaries.program("postgres"),
                    "-D",
                    str(self.spec.folder),
                    "-c",
                    f"config_file={target}",
                ],
                {"LC_ALL": "C", "TZ": "UTC", "PATH": os.environ.get("PATH", os.defpath)},
                self._account,
                self.log,
                death_signal="QUIT",
            )
        )
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

    def _ready(self, pid: int) -> bool:
        """Read the postmaster's own note, as pg_ctl does: line 1 is its process ID, line 8 its state."""
        try:
            lines = self._folder.pid_file.read_text(encoding="utf-8").splitlines()
        except OSError:
            return False
        return lines[:1] == [str(pid)] and [line.strip() for line in lines[7:8]] == ["ready"]

    def _judge(self, said: str, port: int) -> None:
        """Return where another try makes sense, raise where it does not."""
        if "Address already in use" in said:
            if self.spec.port is not None:
                raise _port_taken(self.name, port)
            return
        if "shared memory block" in said or "postmaster.pid" in said:
            return
        raise _failed(self.name, said, self.log.path)

    def _check_space(self) -> None:
        folder = self.spec.folder
        while not folder.exists():
            folder = folder.parent
        free = shutil.disk_usage(folder).free
        if free < MIN_FREE_BYTES:
            raise Refused(
                "disk_full",
                f"only {free // 1024**2} MB are free at {folder}; make room for at least {MIN_FREE_BYTES // 1024**2}",
            )


def _port_taken(name: str, port: int) -> HongbaoError:
    return Refused("port_taken", f"port {port} for Postgres {name} is taken; stop what listens there or choose another")


def _failed(name: str, said: str, log: Path) -> HongbaoError:
    # The last line often only says that there were errors; the one before says which.
    reasons = [line.split("] ", 1)[-1].strip() for line in said.splitlines() if line.strip()]
    reason = "; ".join(reasons[-2:]) or "it said nothing"
    return Unavailable("postgres_failed", f"Postgres {name} does not start: {reason} (its log: {log})")
