"""What every supervised part can do, whether a server of others or a process of ours."""

from typing import Protocol

from cluster.supervision.logfile import LogFile


class Part(Protocol):
    """Start, stop, kill and wait; after an end of any kind `start` works again, at the same address."""

    name: str
    log: LogFile

    @property
    def pid(self) -> int:
        """The process ID; 0 before the first start."""

    @property
    def running(self) -> bool:
        """Whether it is there."""

    async def start(self) -> None:
        """Start; ready when this returns. Raises Refused or Unavailable with the reason."""

    async def stop(self) -> None:
        """Stop within a deadline, the hard way if need be."""

    def kill(self) -> None:
        """Kill it as a crash would."""

    async def wait(self) -> int:
        """Wait, without a deadline, until it has ended."""
