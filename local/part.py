"""A part: one process that the runner starts and supervises, whether its program is ours or not."""

from typing import Protocol

from machine.logfile import LogFile


class Part(Protocol):
    """After an end of any kind `start` works again, at the same address."""

    name: str
    log: LogFile

    @property
    def pid(self) -> int:
        """The process ID; 0 before the first start."""

    @property
    def address(self) -> str:
        """Where it listens, host:port or the path of a socket; known from the first start on."""

    @property
    def running(self) -> bool:
        """Whether the process exists."""

    async def start(self) -> None:
        """Start; the part is ready when this returns. Raises Refused or Unavailable with the reason."""

    async def stop(self) -> None:
        """Stop within a deadline, by SIGKILL if need be."""

    async def restart(self) -> None:
        """Stop and start, so that those whom it serves lose as little as can be."""

    def kill(self) -> None:
        """Kill it as a crash would."""

    async def answers(self) -> bool:
        """Say whether it answers now, within a deadline of its own; a stopped or hanging process does not."""

    async def wait(self) -> int:
        """Wait, without a deadline, until it has ended; returns its exit status, or minus the signal."""
