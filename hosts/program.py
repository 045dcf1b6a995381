"""One process on a host: started in its namespace under an account, ended with this process."""

import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hosts.host import Host
from hosts.limits import PROGRAM_STOP_S
from hosts.shell import inside
from machine.account import Account, own_account
from machine.child import Child, Command
from machine.logfile import LogFile


@dataclass
class HostProgram:
    """A program of somebody else's. `start` returns at once; whoever needs it ready looks for that."""

    name: str
    host: Host
    account: Account
    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Begin without a process."""
        self.log = LogFile(self.host.folder / f"{self.name}.log")
        self._child: Child | None = None

    @property
    def running(self) -> bool:
        """Whether the process exists."""
        return self._child is not None and self._child.running

    def start(self) -> None:
        """Start it."""
        # We are root, so that the namespace can be entered; there it takes its account.
        argv = [*inside(self.host.namespace), *self.account.command_prefix(), *self.argv]
        env = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC", **self.env}
        self._child = Child.start(Command(argv, env, own_account(), self.log))

    async def stop(self) -> None:
        """End it in good order (SIGTERM), then by force."""
        if self._child is not None:
            await self._child.stop((signal.SIGTERM, PROGRAM_STOP_S))

    async def kill(self) -> None:
        """Kill it as a crash would."""
        if self._child is not None:
            await self._child.stop()
