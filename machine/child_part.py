"""What all parts have in common that are one child process (`local.part`): its account, its log, its life."""

import signal
from pathlib import Path

from machine.account import Account
from machine.child import Child  # noqa: TC001 - plain imports everywhere
from machine.logfile import LogFile


class ChildPart:
    """A process that is started by the class built on this one, which sets `_child`; none before its first start."""

    def __init__(self, name: str, log: Path, account: Account) -> None:
        self.name = name
        self.log = LogFile(log)
        self._account = account
        self._child: Child | None = None

    @property
    def pid(self) -> int:
        """The process ID; 0 before the first start."""
        return self._child.pid if self._child else 0

    @property
    def running(self) -> bool:
        """Whether the process exists."""
        return self._child is not None and self._child.running

    def kill(self) -> None:
        """Kill it as a crash would."""
        if self._child is not None:
            self._child.send(signal.SIGKILL)

    async def wait(self) -> int:
        """Wait, without a deadline, until it has ended; returns its exit status, or minus the signal."""
        return await self._child.wait() if self._child else 0

    async def _stop(self, *steps: tuple[signal.Signals, float]) -> None:
        """Stop it by these signals, each with the seconds that it has, then by SIGKILL; nothing if it does not run."""
        if self._child is not None:
            await self._child.stop(*steps)
