"""One child process: it dies with this process, writes its own log, and is stopped within a deadline.

Built on Popen and a pidfd, not on asyncio's subprocesses: these kill the child when the event loop that started it
closes, but a child here belongs to the process and outlives a loop.
"""

import asyncio
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from machine.account import Account
from machine.logfile import LogFile

KILL_S = 2.0
"""SIGKILL takes effect at once, unless the process waits for a broken disk."""


@dataclass(frozen=True)
class Command:
    """What to run. `death_signal`: what the kernel sends the child if this process dies (setpriv --pdeathsig).

    `inherits`: numbers of open files that the child gets under the same numbers.
    """

    argv: Sequence[str]
    env: Mapping[str, str]
    account: Account
    log: LogFile
    death_signal: str = "KILL"
    folder: Path = Path("/")
    inherits: Sequence[int] = ()


class Child:
    """A started process. Make it with `Child.start`."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    @classmethod
    def start(cls, command: Command) -> "Child":
        """Start the process in a session of its own: Ctrl-C in the terminal does not reach it, we stop it in order."""
        log = command.log.open()
        try:
            process = subprocess.Popen(  # noqa: S603 - no shell, no outside input
                [*command.account.command_prefix(command.death_signal), *command.argv],
                env=dict(command.env),
                cwd=command.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=command.inherits,
            )
        finally:
            os.close(log)
        return cls(process)

    @property
    def pid(self) -> int:
        """The process ID of the command: setpriv replaces itself by it."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit status, or minus the signal that ended it; None while it runs."""
        return self._process.poll()

    @property
    def running(self) -> bool:
        """Whether it runs."""
        return self._process.poll() is None

    def send(self, number: signal.Signals) -> None:
        """Send a signal; does nothing if the process has ended."""
        self._process.send_signal(number)

    async def wait(self) -> int:
        """Wait, without a deadline, until it has ended; returns `returncode`."""
        if self.running:
            loop = asyncio.get_running_loop()
            ended = asyncio.Event()
            pidfd = os.pidfd_open(self.pid)
            loop.add_reader(pidfd, ended.set)
            try:
                await ended.wait()
            finally:
                loop.remove_reader(pidfd)
                os.close(pidfd)
        return self._process.wait()

    async def ended_within(self, seconds: float) -> bool:
        """Wait at most `seconds` until it has ended; returns whether it has."""
        try:
            async with asyncio.timeout(seconds):
                await self.wait()
        except TimeoutError:
            return False
        return True

    async def stop(self, *steps: tuple[signal.Signals, float]) -> None:
        """Send each step's signal and wait at most its seconds for the end; the last step is SIGKILL and KILL_S."""
        for number, seconds in (*steps, (signal.SIGKILL, KILL_S)):
            if not self.running:
                return
            self.send(number)
            if await self.ended_within(seconds):
                return
